// Time for measuring: monotonic wall time, and this thread's processor time.
#pragma once

#include <time.h>

#include <chrono>

namespace parl {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Processor seconds that the calling thread has used.
inline double thread_cpu_seconds() {
  timespec ts{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return static_cast<double>(ts.tv_sec) + 1e-9 * static_cast<double>(ts.tv_nsec);
}

// Adds the wall time between its construction and its end to `total` (seconds).
class ScopedTimer {
 public:
  explicit ScopedTimer(double& total) : total_(total), start_(Clock::now()) {}
  ~ScopedTimer() { total_ += seconds_since(start_); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  double& total_;
  Clock::time_point start_;
};

}  // namespace parl
