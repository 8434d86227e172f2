#include "parl/train/central_queue.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "parl/core/check.h"

namespace parl {
namespace {

int64_t rows_of(const PredictionRequest& request) { return request.obs.size(0); }

bool want_the_same(const PredictionRequest& a, const PredictionRequest& b) {
  if (!a.weights || !b.weights) return a.weights.has_value() == b.weights.has_value();
  return a.weights->version() == b.weights->version();
}

}  // namespace

PredictionQueue::PredictionQueue(Options options)
    : options_(options),
      answered_(static_cast<size_t>(options.actors)),
      sequence_(static_cast<size_t>(options.actors), options.first_sequence) {
  PARL_CHECK(options.actors > 0 && options.max_rows > 0, "a prediction queue serves at least one actor and one row");
}

bool PredictionQueue::ask(PredictionRequest& request) {
  using State = PredictionRequest::State;
  Lock lock(mutex_);
  if (closed_) return false;
  request.state = State::kWaiting;
  request.asked = Clock::now();
  waiting_.push_back(&request);
  asked_.notify_all();
  answered_[static_cast<size_t>(request.actor)].wait(
      lock, [&] { return request.state == State::kAnswered || (closed_ && request.state == State::kWaiting); });
  if (request.state == State::kWaiting) {
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &request));
    return false;
  }
  if (request.error) std::rethrow_exception(request.error);
  return true;
}

void PredictionQueue::finish_rollout(int actor) {
  {
    std::lock_guard lock(mutex_);
    ++sequence_.at(static_cast<size_t>(actor));
  }
  asked_.notify_all();
}

int64_t PredictionQueue::rows_waiting() const {
  int64_t rows = 0;
  for (const PredictionRequest* r : waiting_) rows += rows_of(*r);
  return rows;
}

bool PredictionQueue::round_complete() const {
  if (waiting_.empty()) return false;
  const int64_t oldest = *std::min_element(sequence_.begin(), sequence_.end());
  const auto members = std::count(sequence_.begin(), sequence_.end(), oldest);
  return std::count_if(waiting_.begin(), waiting_.end(), [&](const PredictionRequest* r) {
           return sequence_[static_cast<size_t>(r->actor)] == oldest;
         }) == members;
}

std::vector<PredictionRequest*> PredictionQueue::take_round() {
  const int64_t oldest = *std::min_element(sequence_.begin(), sequence_.end());
  std::vector<PredictionRequest*> batch;
  for (PredictionRequest* r : waiting_) {
    if (sequence_[static_cast<size_t>(r->actor)] == oldest) batch.push_back(r);
  }
  std::sort(batch.begin(), batch.end(),
            [](const PredictionRequest* a, const PredictionRequest* b) { return a->actor < b->actor; });
  return batch;
}

std::vector<PredictionRequest*> PredictionQueue::take_oldest() {
  std::vector<PredictionRequest*> batch;
  int64_t rows = 0;
  for (PredictionRequest* r : waiting_) {
    if (!batch.empty() && (rows + rows_of(*r) > options_.max_rows || !want_the_same(*batch[0], *r))) break;
    batch.push_back(r);
    rows += rows_of(*r);
  }
  return batch;
}

std::vector<PredictionRequest*> PredictionQueue::take() {
  Lock lock(mutex_);
  std::vector<PredictionRequest*> batch;
  if (options_.lock_step) {
    asked_.wait(lock, [&] { return closed_ || round_complete(); });
    if (closed_) return {};
    batch = take_round();
  } else {
    while (batch.empty()) {
      asked_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
      if (closed_) return {};
      const auto enough = [&] {  // empty: another predictor was quicker
        return closed_ || waiting_.empty() || rows_waiting() >= options_.max_rows ||
               waiting_.size() >= static_cast<size_t>(options_.actors);
      };
      if (options_.wait.count() > 0) asked_.wait_until(lock, waiting_.front()->asked + options_.wait, enough);
      if (closed_) return {};
      batch = take_oldest();
    }
  }
  for (PredictionRequest* r : batch) {
    r->state = PredictionRequest::State::kTaken;
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), r));
  }
  count(batch);
  return batch;
}

void PredictionQueue::count(const std::vector<PredictionRequest*>& batch) {
  ++batches_;
  for (const PredictionRequest* r : batch) {
    ++requests_;
    rows_ += static_cast<double>(rows_of(*r));
    wait_seconds_ += seconds_since(r->asked);
  }
  left_ += static_cast<double>(waiting_.size()) / options_.actors;
}

void PredictionQueue::answer(const std::vector<PredictionRequest*>& batch) {
  std::vector<int> actors;  // an answered request may be gone at once
  {
    std::lock_guard lock(mutex_);
    for (PredictionRequest* r : batch) {
      actors.push_back(r->actor);
      r->state = PredictionRequest::State::kAnswered;
    }
  }
  for (const int actor : actors) answered_[static_cast<size_t>(actor)].notify_one();
}

void PredictionQueue::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  asked_.notify_all();
  for (auto& answered : answered_) answered.notify_all();
}

PredictionQueue::Figures PredictionQueue::take_figures() {
  std::lock_guard lock(mutex_);
  Figures out;
  out.batches = batches_;
  const double nan = std::numeric_limits<double>::quiet_NaN(), n = static_cast<double>(batches_);
  out.rows = batches_ ? rows_ / n : nan;
  out.left_share = batches_ ? left_ / n : nan;
  out.wait_ms = requests_ ? 1e3 * wait_seconds_ / static_cast<double>(requests_) : nan;
  batches_ = requests_ = 0;
  rows_ = left_ = wait_seconds_ = 0;
  return out;
}

}  // namespace parl
