#include "cli/bare_peer.h"

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
  void send_block() override {
    std::memcpy(to_.data(), from_.data(), kBytes);
    asm volatile("" : : "r"(to_.data()) : "memory");
  }

 private:
  std::vector<std::byte> from_ = std::vector<std::byte>(kBytes, std::byte{1}), to_ = std::vector<std::byte>(kBytes);
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

// A socket pair and a forked child that answers: 64 bytes with 64 bytes, a block with one byte.
class ProcessPeer final : public BarePeer {
 public:
  ProcessPeer() {
    int fds[2];
    PARL_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "no socket pair: {}",
               std::generic_category().message(errno));
    child_ = fork();
    PARL_CHECK(child_ >= 0, "no child process: {}", std::generic_category().message(errno));
    if (child_ == 0) {
      close(fds[0]);
      serve(fds[1]);
      _exit(0);
    }
    close(fds[1]);
    fd_ = fds[0];
  }
  ~ProcessPeer() override {
    close(fd_);
    waitpid(child_, nullptr, 0);
  }
  void round_trip() override {
    std::array<char, kSmall> message{};
    PARL_CHECK(put(fd_, message.data(), kSmall) && get(fd_, message.data(), kSmall), "the bare peer has gone");
  }
  void send_block() override {
    std::array<char, kSmall> message{};
    message[0] = 1;
    char done = 0;
    PARL_CHECK(put(fd_, message.data(), kSmall) && put(fd_, block_.data(), kBytes) && get(fd_, &done, 1),
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
    std::vector<char> buffer(kBytes);
    while (get(fd, message.data(), kSmall)) {
      const bool is_block = message[0] == 1;
      if (is_block ? !(get(fd, buffer.data(), kBytes) && put(fd, message.data(), 1)) : !put(fd, message.data(), kSmall))
        return;
    }
  }

  int fd_ = -1;
  pid_t child_ = -1;
  std::vector<char> block_ = std::vector<char>(kBytes, 1);
};

}  // namespace

std::unique_ptr<BarePeer> make_bare_peer(const std::string& engine) {
  if (engine == "inline") return std::make_unique<InlinePeer>();
  if (engine == "thread") return std::make_unique<ThreadPeer>();
  if (engine == "process") return std::make_unique<ProcessPeer>();
  raise("there is no engine '{}'; engines: inline, thread, process", engine);
}

}  // namespace parl::cli
