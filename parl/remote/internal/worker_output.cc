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

WorkerOutput::WorkerOutput() {
  std::fflush(nullptr);
  redirect(streams_[0], STDOUT_FILENO);
  redirect(streams_[1], STDERR_FILENO);
  thread_ = std::thread([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "parl-output");
}

void WorkerOutput::redirect(Stream& stream, int descriptor) {
  stream.old.reset(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
  int fds[2];
  if (!stream.old || ::pipe2(fds, O_CLOEXEC) != 0)
    throw Error(resource_message("a worker cannot read its own output", errno));
  stream.pipe.reset(fds[0]);
  const UniqueFd writing(fds[1]);
  ::dup2(writing.get(), descriptor);
}

void WorkerOutput::send_to(std::shared_ptr<Connection> connection) {
  std::lock_guard lock(mutex_);
  connection_ = std::move(connection);
}

void WorkerOutput::restore() noexcept {
  if (is_ending_.exchange(true)) return;
  std::cout.flush();
  std::fflush(nullptr);
  ::dup2(streams_[0].old.get(), STDOUT_FILENO);
  ::dup2(streams_[1].old.get(), STDERR_FILENO);
  if (thread_.joinable() && std::this_thread::get_id() != thread_.get_id()) thread_.join();
}

// A pipe's other end may live on in a process that a method has started: its end is not waited for.
void WorkerOutput::run() {
  for (;;) {
    const bool is_ending = is_ending_;
    std::array<pollfd, 2> polls;
    for (size_t i = 0; i < polls.size(); ++i) polls[i] = {streams_[i].pipe.get(), POLLIN, 0};
    const int ready = ::poll(polls.data(), polls.size(), is_ending ? 0 : kLookMs);
    if (ready == 0 && is_ending) return;
    if (ready <= 0) continue;
    bool is_over = true;
    for (size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].revents && !pump(streams_[i])) streams_[i].pipe.reset();
      if (streams_[i].pipe) is_over = false;
    }
    if (is_over) return;
  }
}

// False: nobody can write there any more.
bool WorkerOutput::pump(Stream& stream) {
  std::array<char, 16384> buffer;
  const ssize_t got = ::read(stream.pipe.get(), buffer.data(), buffer.size());
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  deliver(stream.old.get(), buffer.data(), static_cast<size_t>(got));
  return true;
}

void WorkerOutput::deliver(int to, const char* text, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t written = ::write(to, text + done, bytes - done);
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
