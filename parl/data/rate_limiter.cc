#include "parl/data/rate_limiter.h"

#include <algorithm>

#include "parl/core/check.h"

namespace parl {

RateLimiter::RateLimiter(int64_t max_ahead) : max_ahead_(max_ahead) {
  PARL_CHECK(max_ahead >= 0, "a rate limiter's bound is {}, expected 0 or more", max_ahead);
}

bool RateLimiter::start(int64_t steps) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || fits(steps); });
  if (closed_) return false;
  ahead_ += steps;
  return true;
}

bool RateLimiter::try_start(int64_t steps) {
  const std::lock_guard lock(mutex_);
  if (closed_ || !fits(steps)) return false;
  ahead_ += steps;
  return true;
}

void RateLimiter::done(int64_t steps) {
  {
    const std::lock_guard lock(mutex_);
    ahead_ = std::max<int64_t>(ahead_ - steps, 0);
  }
  changed_.notify_all();
}

int64_t RateLimiter::ahead() const {
  const std::lock_guard lock(mutex_);
  return ahead_;
}

void RateLimiter::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

}  // namespace parl
