#include "cli/bare_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "parl/core/check.h"

namespace parl::cli {
namespace {

class CopyingPeer : public BarePeer {
 public:
  void send_block(size_t bytes) override {
    if (from_.size() < bytes) from_.resize(bytes, std::byte{1});
    if (to_.size() < bytes) to_.resize(bytes);
    std::memcpy(to_.data(), from_.data(), bytes);
    asm volatile("" : : "r"(to_.data()) : "memory");
  }

 private:
  std::vector<std::byte> from_, to_;
};

int add(int a, int b) { return a + b; }

class InlinePeer final : public CopyingPeer {
 public:
  void round_trip() override {
    const volatile int sum = function_(1, 2);
    (void)sum;
  }

 private:
  int (*volatile function_)(int, int) = &add;
};

class ThreadPeer final : public CopyingPeer {
 public:
  ~ThreadPeer() override {
    {
      std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    there_.notify_one();
    thread_.join();
  }
  void round_trip() override {
    std::unique_lock lock(mutex_);
    is_there_ = true;
    there_.notify_one();
    back_.wait(lock, [&] { return !is_there_; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      there_.wait(lock, [&] { return is_there_ || is_over_; });
      if (is_over_) return;
      is_there_ = false;
      back_.notify_one();
    }
  }
  std::mutex mutex_;
  std::condition_variable there_, back_;
  bool is_there_ = false, is_over_ = false;
  std::thread thread_{[this] { serve(); }};
};

using SocketPair = std::array<int, 2>;

SocketPair unix_pair() {
  SocketPair fds{};
  PARL_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0, "no socket pair: {}",
             std::generic_category().message(errno));
  return fds;
}

// Both ends of a connection over loopback, which send small messages at once.
SocketPair tcp_pair() {
  const auto check = [](bool is_good) {
    PARL_CHECK(is_good, "no TCP connection over loopback: {}", std::generic_category().message(errno));
  };
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const where = reinterpret_cast<sockaddr*>(&address);
  check(listener >= 0 && bind(listener, where, size) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, where, &size) == 0);
  const int dialled = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  check(dialled >= 0 && connect(dialled, where, size) == 0);
  const int taken = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  check(taken >= 0);
  close(listener);
  const int yes = 1;
  for (const int fd : {dialled, taken}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return {dialled, taken};
}

// A socket pair and a forked child that answers: 64 bytes, which begin with the size of the block that follows them,
// with 64 bytes when there is none, a block with one byte.
class SocketPeer final : public BarePeer {
 public:
  explicit SocketPeer(const SocketPair& fds) : fd_(fds[0]) {
    child_ = fork();
    PARL_CHECK(child_ >= 0, "no child process: {}", std::generic_category().message(errno));
    if (child_ == 0) {
      close(fds[0]);
      serve(fds[1]);
      _exit(0);
    }
    close(fds[1]);
  }
  ~SocketPeer() override {
    close(fd_);
    waitpid(child_, nullptr, 0);
  }
  void round_trip() override {
    std::array<char, kSmall> message{};
    PARL_CHECK(put(fd_, message.data(), kSmall) && get(fd_, message.data(), kSmall), "the bare peer has gone");
  }
  void send_block(size_t bytes) override {
    if (block_.size() < bytes) block_.resize(bytes, 1);
    std::array<char, kSmall> message{};
    std::memcpy(message.data(), &bytes, sizeof bytes);
    char done = 0;
    PARL_CHECK(put(fd_, message.data(), kSmall) && put(fd_, block_.data(), bytes) && get(fd_, &done, 1),
               "the bare peer has gone");
  }

 private:
  static constexpr size_t kSmall = 64;

  static bool put(int fd, const char* data, size_t bytes) {
    while (bytes) {
      const ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL);
      if (n <= 0) return false;
      data += n;
      bytes -= static_cast<size_t>(n);
    }
    return true;
  }
  static bool get(int fd, char* data, size_t bytes) {
    while (bytes) {
      const ssize_t n = recv(fd, data, bytes, 0);
      if (n <= 0) return false;
      data += n;
      bytes -= static_cast<size_t>(n);
    }
    return true;
  }
  static void serve(int fd) {
    std::array<char, kSmall> message{};
    std::vector<char> buffer;
    while (get(fd, message.data(), kSmall)) {
      size_t bytes = 0;
      std::memcpy(&bytes, message.data(), sizeof bytes);
      if (buffer.size() < bytes) buffer.resize(bytes);
      const bool goes_on =
          bytes > 0 ? get(fd, buffer.data(), bytes) && put(fd, message.data(), 1) : put(fd, message.data(), kSmall);
      if (!goes_on) return;
    }
  }

  const int fd_;
  pid_t child_ = -1;
  std::vector<char> block_;
};

}  // namespace

std::unique_ptr<BarePeer> make_bare_peer(const std::string& engine) {
  if (engine == "inline") return std::make_unique<InlinePeer>();
  if (engine == "thread") return std::make_unique<ThreadPeer>();
  if (engine == "process") return std::make_unique<SocketPeer>(unix_pair());
  if (engine == "tcp") return std::make_unique<SocketPeer>(tcp_pair());
  raise("there is no engine '{}'; engines: inline, thread, process, tcp", engine);
}

}  // namespace parl::cli
