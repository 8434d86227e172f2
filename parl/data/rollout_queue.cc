#include "parl/data/rollout_queue.h"

#include <algorithm>
#include <chrono>

#include "parl/core/check.h"

namespace parl {
namespace {

constexpr std::chrono::milliseconds kAskEvery{100};

}  // namespace

RolloutQueue::RolloutQueue(int actors) : actors_(actors) {
  PARL_CHECK_GT(actors, 0, "a rollout queue serves at least one actor");
}

std::optional<size_t> RolloutQueue::position_of(int actor) const {
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (waiting_[i].first == actor) return i;
  }
  return std::nullopt;
}

bool RolloutQueue::wait_free(int actor) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !position_of(actor); });
  return !closed_;
}

bool RolloutQueue::push(int actor, Rollout rollout) {
  PARL_CHECK(actor >= 0 && actor < actors_, "actor {} of {}", actor, actors_);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !position_of(actor); });
    if (closed_) return false;
    waiting_.emplace_back(actor, std::move(rollout));
  }
  changed_.notify_all();
  return true;
}

std::optional<Rollout> RolloutQueue::take(size_t position, std::unique_lock<std::mutex>& lock) {
  std::optional<Rollout> out(std::move(waiting_[position].second));
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(position));
  lock.unlock();
  changed_.notify_all();
  return out;
}

void RolloutQueue::wait_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready,
                              const GiveUp& give_up) {
  if (!give_up) return changed_.wait(lock, ready);
  while (!changed_.wait_for(lock, kAskEvery, ready)) {
    lock.unlock();
    const bool enough = give_up();
    lock.lock();
    if (enough) return;
  }
}

std::optional<Rollout> RolloutQueue::pop(const GiveUp& give_up) {
  std::unique_lock lock(mutex_);
  wait_until(
      lock, [&] { return closed_ || !waiting_.empty(); }, give_up);
  if (error_) std::rethrow_exception(error_);
  if (waiting_.empty()) return std::nullopt;
  return take(0, lock);
}

std::optional<Rollout> RolloutQueue::pop_from(int actor, const GiveUp& give_up) {
  std::unique_lock lock(mutex_);
  wait_until(
      lock, [&] { return closed_ || position_of(actor); }, give_up);
  if (error_) std::rethrow_exception(error_);
  const auto position = position_of(actor);
  if (!position) return std::nullopt;
  return take(*position, lock);
}

std::vector<Rollout> RolloutQueue::wait_all_and_copy() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || waiting_.size() == static_cast<size_t>(actors_); });
  if (error_) std::rethrow_exception(error_);
  std::vector<Rollout> out;
  if (waiting_.size() < static_cast<size_t>(actors_)) return out;
  for (int actor = 0; actor < actors_; ++actor) out.push_back(waiting_[*position_of(actor)].second);
  return out;
}

size_t RolloutQueue::size() const {
  std::lock_guard lock(mutex_);
  return waiting_.size();
}

void RolloutQueue::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

void RolloutQueue::fail(std::exception_ptr error) {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    if (!error_) error_ = std::move(error);
  }
  changed_.notify_all();
}

}  // namespace parl
