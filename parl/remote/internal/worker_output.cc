#include "parl/remote/internal/worker_output.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>

#include "parl/core/check.h"
#include "parl/remote/internal/spawn.h"

namespace parl::internal {
namespace {

constexpr uint64_t kMostQueued = uint64_t{4} << 20;
constexpr int kLookMs = 50;         // whether the end has come
constexpr int kLastWordsMs = 1000;  // for the whole of them
constexpr auto kToBeRead =
    std::chrono::milliseconds(50);  // by the learner: bytes left unread here at the end cut it off
static_assert(std::atomic<const char*>::is_always_lock_free);  // a signal handler uses it

}  // namespace

WorkerOutput::WorkerOutput() {
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::fflush(nullptr);
  redirect(streams_[0], STDOUT_FILENO);
  redirect(streams_[1], STDERR_FILENO);
  thread_ = std::thread([this] {
    try {
      run();
    } catch (const std::bad_alloc&) {  // in its last words
    }
    is_over_ = true;
  });
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

void WorkerOutput::say_last(const char* why) noexcept {
  const char* none = nullptr;
  last_.compare_exchange_strong(none, why);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  for (int waited = 0; !is_over_ && waited < kLastWordsMs; ++waited) {
    const timespec millisecond{0, 1'000'000};
    ::nanosleep(&millisecond, nullptr);
  }
}

void WorkerOutput::deliver_last(const char* why) {
  const std::string line = fmt::format("worker {}: {}\n", ::getpid(), why);
  [[maybe_unused]] const ssize_t written = ::write(streams_[1].old.get(), line.data(), line.size());
  std::shared_ptr<Connection> connection;
  {
    std::lock_guard lock(mutex_);
    connection = connection_;
  }
  if (!connection) return;
  connection->tell(ControlKind::kBye, Bye{why, false, true});
  std::this_thread::sleep_for(kToBeRead);
}

// A pipe's other end may live on in a process that a method has started: its end is not waited for.
void WorkerOutput::run() {
  for (;;) {
    const char* last = last_;
    const bool is_ending = is_ending_ || last;
    std::array<pollfd, 3> polls;
    for (size_t i = 0; i < streams_.size(); ++i) polls[i] = {streams_[i].pipe.get(), POLLIN, 0};
    polls.back() = {is_ending ? -1 : wake_.get(), POLLIN, 0};
    const int ready = ::poll(polls.data(), polls.size(), is_ending ? 0 : kLookMs);
    if (ready == 0 && last) deliver_last(last);
    if (ready == 0 && is_ending) return;
    if (ready <= 0) continue;
    bool is_over = true;
    for (size_t i = 0; i < streams_.size(); ++i) {
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
