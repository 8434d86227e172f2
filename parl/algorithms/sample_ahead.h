// SampleAhead: a thread that draws the next samples from replay, and the normal numbers that go with them, while the
// learner learns from the present one.
//
// The order is fixed: sample k of the buffer's sequence and the k-th stretch of the noise's stream belong together,
// whoever is quicker, so that results do not depend on the thread. Between start() and the last next() the buffer is
// the thread's; nobody else may touch it. Owner: one learner, in one thread. Throws from next() what drawing threw.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#include "parl/algorithms/replay.h"
#include "parl/core/rng.h"

namespace parl {

struct DrawnSample {
  ReplaySample transitions;
  at::Tensor noise;  // [draws, N, A] normal numbers
};

class SampleAhead {
 public:
  // Samples of n transitions from `replay`, which must outlive this; noise for `draws` of their actions each.
  SampleAhead(ReplayBuffer& replay, int64_t n, int64_t draws, uint64_t seed);
  ~SampleAhead();
  SampleAhead(const SampleAhead&) = delete;
  SampleAhead& operator=(const SampleAhead&) = delete;

  // `count` samples will be taken by next(). The first is drawn here.
  void start(int64_t count);
  // Waits for the next one; valid until the call after.
  const DrawnSample& next();
  // Forgets what was not taken and gives the buffer back: after an error in the middle. No effect otherwise.
  void cancel();

  uint64_t noise_position() const { return noise_.position(); }
  void set_noise_position(uint64_t position) { noise_.set_position(position); }

 private:
  static constexpr int64_t kSlots = 3;  // one in the learner's hands, two ahead
  DrawnSample& slot(int64_t i) { return slots_[static_cast<size_t>(i % kSlots)]; }
  void draw(DrawnSample& into);
  void serve();
  bool may_draw() const { return drawn_ < wanted_ && drawn_ < taken_ + kSlots - 1; }

  ReplayBuffer& replay_;
  int64_t n_, draws_;
  CounterRng noise_;
  at::Tensor uniforms_;
  std::array<DrawnSample, kSlots> slots_;

  std::mutex mutex_;
  std::condition_variable work_, ready_;
  int64_t wanted_ = 0, drawn_ = 0, taken_ = 0;
  bool drawing_ = false, stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // begun when there first is something to draw ahead
};

}  // namespace parl
