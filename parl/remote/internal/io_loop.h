// One thread that waits for descriptors and deadlines (epoll). A manager of the process engine has one, for all
// workers.
//
// Handlers run on this thread only, one at a time; they must not block and never run user code. Within a round the
// descriptors come before the deadlines, so a deadline that passed while the process was stopped or busy is judged only
// after what arrived meanwhile has been read; but a flood of events holds deadlines up for a few rounds at most.
// Thread rule: every method from any thread. After unwatch() or cancel() returns on the loop's own thread the handler
// is not called again; elsewhere a call may be under way, so handlers hold what they use (shared_ptr). The destructor
// joins; call it from another thread than the loop's own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "parl/remote/internal/unique_fd.h"

namespace parl::internal {

class IoLoop {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Handler = std::function<void(uint32_t events)>;

  // Throws parl::Error without descriptors (it needs two) or threads.
  IoLoop();
  ~IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  // Calls `handler` whenever `fd` has one of `events` (EPOLLIN, EPOLLOUT, 0 for hang-up alone). Level triggered.
  uint64_t watch(int fd, uint32_t events, Handler handler);
  void change(uint64_t watch, uint32_t events);
  void unwatch(uint64_t watch);

  // Runs `task` on the loop's thread, soon.
  void post(std::function<void()> task);
  // Runs `task` once at `when`, unless cancelled.
  uint64_t at(Time when, std::function<void()> task);
  void cancel(uint64_t timer);

  bool on_loop_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  struct Watch {
    int fd;
    std::shared_ptr<Handler> handler;
  };
  struct Timer {
    uint64_t id;
    std::function<void()> task;
  };
  void run();
  void dispatch(uint64_t watch, uint32_t events);
  void run_tasks();
  void run_timers();
  int timeout_ms();
  void wake();

  UniqueFd epoll_, wake_;
  std::mutex mutex_;
  uint64_t next_ = 1;
  std::unordered_map<uint64_t, Watch> watches_;
  std::vector<std::function<void()>> tasks_;
  std::multimap<Time, Timer> timers_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace parl::internal
