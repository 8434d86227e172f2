// RolloutQueue: finished rollouts on their way from the actors to the learner. Bounded by construction: at most one
// finished rollout waits per actor; push() blocks until the previous one of the same actor has been taken.
//
// Thread rule: any thread; one pushing thread per actor. close() wakes everybody: push() then returns false, pop()
// drains what waits and then returns an empty optional. fail() closes and makes every later pop() rethrow the error.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "parl/data/rollout.h"

namespace parl {

class RolloutQueue {
 public:
  explicit RolloutQueue(int actors);

  // Waits until nothing of this actor waits in the queue. False: closed.
  bool wait_free(int actor);
  // Waits like wait_free, then adds. False: closed, the rollout is dropped.
  bool push(int actor, Rollout rollout);

  // `give_up`, where given, is asked ten times a second while there is nothing; true ends the wait with nothing.
  using GiveUp = std::function<bool()>;
  // The rollout that has waited longest; blocks. Empty: closed and drained, or given up.
  std::optional<Rollout> pop(const GiveUp& give_up = {});
  // The waiting rollout of this actor; blocks. Empty: closed and nothing of this actor waits, or given up.
  std::optional<Rollout> pop_from(int actor, const GiveUp& give_up = {});

  // Waits until a rollout of every actor waits, and gives deep copies in actor order, leaving them in the queue.
  // Empty: closed before that.
  std::vector<Rollout> wait_all_and_copy();

  size_t size() const;
  void close();
  void fail(std::exception_ptr error);

 private:
  std::optional<Rollout> take(size_t position, std::unique_lock<std::mutex>& lock);
  std::optional<size_t> position_of(int actor) const;
  void wait_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready, const GiveUp& give_up);

  const int actors_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<int, Rollout>> waiting_;
  bool closed_ = false;
  std::exception_ptr error_;
};

}  // namespace parl
