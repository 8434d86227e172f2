#include "parl/remote/internal/io_loop.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/remote/internal/spawn.h"

namespace parl::internal {
namespace {

constexpr uint64_t kWake = 0;
constexpr int kMostFullRounds = 8;  // deadlines wait for descriptors, but not for ever

}  // namespace

IoLoop::IoLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !wake_) throw Error(resource_message("cannot start the I/O thread", errno));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWake;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
  // Signals are the business of the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread_.native_handle(), "parl-io");
}

IoLoop::~IoLoop() {
  stop_ = true;
  wake();
  thread_.join();
}

uint64_t IoLoop::watch(int fd, uint32_t events, Handler handler) {
  std::lock_guard lock(mutex_);
  const uint64_t id = next_++;
  watches_.emplace(id, Watch{fd, std::make_shared<Handler>(std::move(handler))});
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    watches_.erase(id);
    throw Error(resource_message("cannot watch a descriptor", errno));
  }
  return id;
}

void IoLoop::change(uint64_t watch, uint32_t events) {
  std::lock_guard lock(mutex_);
  const auto it = watches_.find(watch);
  if (it == watches_.end()) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = watch;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, it->second.fd, &event);
}

void IoLoop::unwatch(uint64_t watch) {
  std::shared_ptr<Handler> handler;  // destroyed outside the lock: it may own much
  std::lock_guard lock(mutex_);
  const auto it = watches_.find(watch);
  if (it == watches_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second.fd, nullptr);
  handler = std::move(it->second.handler);
  watches_.erase(it);
}

void IoLoop::post(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake();
}

uint64_t IoLoop::at(Time when, std::function<void()> task) {
  uint64_t id;
  bool earliest;
  {
    std::lock_guard lock(mutex_);
    id = next_++;
    earliest = timers_.empty() || when < timers_.begin()->first;
    timers_.emplace(when, Timer{id, std::move(task)});
  }
  if (earliest && !on_loop_thread()) wake();
  return id;
}

void IoLoop::cancel(uint64_t timer) {
  if (timer == 0) return;
  std::function<void()> task;  // destroyed outside the lock
  std::lock_guard lock(mutex_);
  const auto it = std::find_if(timers_.begin(), timers_.end(), [&](const auto& t) { return t.second.id == timer; });
  if (it == timers_.end()) return;
  task = std::move(it->second.task);
  timers_.erase(it);
}

void IoLoop::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

int IoLoop::timeout_ms() {
  std::lock_guard lock(mutex_);
  if (!tasks_.empty()) return 0;
  if (timers_.empty()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
}

void IoLoop::run() {
  std::array<epoll_event, 256> events;
  int full_rounds = 0;  // in a row: there are more descriptors to be read
  while (!stop_) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), timeout_ms());
    for (int i = 0; i < count; ++i) dispatch(events[i].data.u64, events[i].events);
    run_tasks();
    full_rounds = count < static_cast<int>(events.size()) ? 0 : full_rounds + 1;
    if (full_rounds > 0 && full_rounds < kMostFullRounds) continue;
    full_rounds = 0;
    run_timers();
  }
}

void IoLoop::dispatch(uint64_t watch, uint32_t events) {
  if (watch == kWake) {
    uint64_t count;
    [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
    return;
  }
  std::shared_ptr<Handler> handler;
  {
    std::lock_guard lock(mutex_);
    const auto it = watches_.find(watch);
    if (it == watches_.end()) return;
    handler = it->second.handler;
  }
  try {
    (*handler)(events);
  } catch (const std::exception& e) {
    log().error("an I/O handler failed: {}", e.what());
  }
}

void IoLoop::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
}

void IoLoop::run_timers() {
  const Time now = std::chrono::steady_clock::now();
  for (;;) {
    std::function<void()> task;
    {
      std::lock_guard lock(mutex_);
      if (timers_.empty() || timers_.begin()->first > now) return;
      task = std::move(timers_.begin()->second.task);
      timers_.erase(timers_.begin());
    }
    task();
  }
}

}  // namespace parl::internal
