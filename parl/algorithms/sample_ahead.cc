#include "parl/algorithms/sample_ahead.h"

#include <torch/torch.h>

#include <utility>

#include "parl/agent/tanh_gaussian.h"
#include "parl/core/check.h"

namespace parl {

SampleAhead::SampleAhead(ReplayBuffer& replay, int64_t n, int64_t draws, uint64_t seed)
    : replay_(replay), n_(n), draws_(draws), noise_(seed, 0x701e) {}

SampleAhead::~SampleAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SampleAhead::draw(DrawnSample& into) {
  replay_.sample_into(into.transitions, n_);
  if (draws_ == 0) return;
  const int64_t size = into.transitions.action.size(1);
  if (!uniforms_.defined()) uniforms_ = torch::empty({draws_, n_, size});
  float* u = uniforms_.mutable_data_ptr<float>();
  for (int64_t i = 0; i < uniforms_.numel(); ++i) u[i] = noise_.uniform();
  into.noise = normal_from_uniform(uniforms_);
}

void SampleAhead::start(int64_t count) {
  if (count <= 0) return;
  draw(slot(0));
  {
    const std::lock_guard lock(mutex_);
    wanted_ = count;
    drawn_ = 1;
    taken_ = 0;
  }
  if (count == 1) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  work_.notify_one();
}

const DrawnSample& SampleAhead::next() {
  std::unique_lock lock(mutex_);
  PARL_CHECK(taken_ < wanted_ || error_, "no more samples were asked for");
  ready_.wait(lock, [this] { return drawn_ > taken_ || error_; });
  if (drawn_ <= taken_) std::rethrow_exception(std::exchange(error_, nullptr));
  ++taken_;
  work_.notify_one();
  return slot(taken_ - 1);
}

void SampleAhead::cancel() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return !drawing_; });
  wanted_ = drawn_ = taken_ = 0;
  error_ = nullptr;
}

void SampleAhead::serve() {
  at::set_num_threads(1);
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stop_ || may_draw(); });
    if (stop_) return;
    drawing_ = true;
    DrawnSample& into = slot(drawn_);
    lock.unlock();
    std::exception_ptr error;
    try {
      draw(into);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    drawing_ = false;
    if (error) {
      error_ = error;
      wanted_ = drawn_;
    } else {
      ++drawn_;
    }
    ready_.notify_one();
  }
}

}  // namespace parl
