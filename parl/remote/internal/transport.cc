#include "parl/remote/internal/transport.h"

#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <system_error>

namespace parl::internal {
namespace {

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(UniqueFd socket) : socket_(std::move(socket)) {}

  ssize_t read(const iovec* pieces, int count) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces);
    message.msg_iovlen = static_cast<size_t>(count);
    return outcome([&] { return ::recvmsg(socket_.get(), &message, MSG_DONTWAIT); });
  }

  ssize_t write(const iovec* pieces, int count) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces);
    message.msg_iovlen = static_cast<size_t>(count);
    return outcome([&] { return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT); });
  }

  void end_sending() override { ::shutdown(socket_.get(), SHUT_WR); }
  int fd() const override { return socket_.get(); }
  std::string error() const override {
    const int error = error_;
    return error == 0 ? "closed its connection" : "is cut off: " + std::generic_category().message(error);
  }

 private:
  template <typename F>
  ssize_t outcome(F&& call) {
    for (;;) {
      const ssize_t done = call();
      if (done >= 0) return done;
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return kNotNow;
      error_ = errno;
      return kClosed;
    }
  }

  UniqueFd socket_;
  std::atomic<int> error_{0};
};

}  // namespace

std::unique_ptr<Transport> make_plain_transport(UniqueFd socket) {
  return std::make_unique<PlainTransport>(std::move(socket));
}

}  // namespace parl::internal
