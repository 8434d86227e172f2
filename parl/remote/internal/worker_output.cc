#include "parl/remote/internal/worker_output.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <string>

#include "parl/core/check.h"
#include "parl/remote/internal/spawn.h"

namespace parl::internal {
namespace {

constexpr uint64_t kMostQueued = uint64_t{4} << 20;
constexpr int kLookMs = 50;  // whether the end has come

}  // namespace

WorkerOutput::WorkerOutput()
    : old_out_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)), old_error_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
  int fds[2];
  if (!old_out_ || !old_error_ || ::pipe2(fds, O_CLOEXEC) != 0)
    throw Error(resource_message("a worker cannot read its own output", errno));
  pipe_.reset(fds[0]);
  const UniqueFd writing(fds[1]);
  thread_ = std::thread([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "parl-output");
  std::fflush(nullptr);
  ::dup2(writing.get(), STDOUT_FILENO);
  ::dup2(writing.get(), STDERR_FILENO);
}

void WorkerOutput::send_to(std::shared_ptr<Connection> connection) {
  std::lock_guard lock(mutex_);
  connection_ = std::move(connection);
}

void WorkerOutput::restore() noexcept {
  if (is_ending_.exchange(true)) return;
  std::cout.flush();
  std::fflush(nullptr);
  ::dup2(old_out_.get(), STDOUT_FILENO);
  ::dup2(old_error_.get(), STDERR_FILENO);
  thread_.join();
}

// The pipe's other end may live on in a process that a method has started: its end is not waited for.
void WorkerOutput::run() {
  std::array<char, 16384> buffer;
  for (;;) {
    const bool is_ending = is_ending_;
    pollfd poll{pipe_.get(), POLLIN, 0};
    const int ready = ::poll(&poll, 1, is_ending ? 0 : kLookMs);
    if (ready == 0 && is_ending) return;
    if (ready <= 0) continue;
    const ssize_t got = ::read(pipe_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    deliver(buffer.data(), static_cast<size_t>(got));
  }
}

void WorkerOutput::deliver(const char* text, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t written = ::write(old_error_.get(), text + done, bytes - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;  // nobody reads there
    done += static_cast<size_t>(written);
  }
  std::shared_ptr<Connection> connection;
  {
    std::lock_guard lock(mutex_);
    connection = connection_;
  }
  if (!connection || connection->queued_bytes(0) > kMostQueued) return;
  try {
    connection->tell(ControlKind::kOutput, std::string(text, bytes));
  } catch (const std::bad_alloc&) {  // lost
  }
}

}  // namespace parl::internal
