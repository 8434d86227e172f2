// RateLimiter: holds collecting to learning. Actors ask for the steps that they are about to make, the learner says how
// many it has learnt from; more than `max_ahead` are never made and not yet learnt from. The other side needs no
// limiter: a learner makes the updates that the steps it was given are worth (train_ratio) and then waits for more.
// Reverb's SampleToInsertRatio (Cassirer et al. 2021, arXiv 2102.04736) is the model: samples per insert is
// train_ratio, its error buffer is max_ahead * train_ratio samples above and none below. Thread rule: any thread.
// close() wakes everybody for good.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace parl {

class RateLimiter {
 public:
  // 0: no bound.
  explicit RateLimiter(int64_t max_ahead);

  // Waits until `steps` more may be made. A single request beyond the bound waits until nothing else is ahead.
  // False: closed.
  bool start(int64_t steps);
  // The same without waiting: false also when they may not be made now.
  bool try_start(int64_t steps);
  // So many were learnt from, or will never be: thrown away, lost with their actor.
  void done(int64_t steps);
  int64_t ahead() const;
  void close();

 private:
  bool fits(int64_t steps) const { return max_ahead_ == 0 || ahead_ == 0 || ahead_ + steps <= max_ahead_; }

  const int64_t max_ahead_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t ahead_ = 0;
  bool closed_ = false;
};

}  // namespace parl
