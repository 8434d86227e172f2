// RolloutSource: where the training loop's rollouts come from: actors that hold a network each (actor_pool.h), or
// environments without one, whose actions are chosen in this process (central_source.h). Whatever it is: rollouts have
// the layout of data/rollout.h and the version of the weights that acted, and at most one finished rollout waits per
// actor.
//   free-running    an actor starts its next rollout as soon as nothing of it waits
//   on_policy       ... and not before newer weights than those of its last rollout are published
//   max_ahead       ... and not while so many steps are made, or being made, that nobody has said learnt() of
//   deterministic   rollout b of every actor is made under version max(0, b - 1) exactly; with on_policy: version b
// Thread rule: one owner thread. stop() and the destructor join all threads. Errors: next() throws what ended the
// source.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "parl/agent/algorithm.h"
#include "parl/data/rollout.h"
#include "parl/train/actor.h"

namespace parl {

class RolloutSource {
 public:
  struct Options {
    int actors = 1;
    bool deterministic = false;
    bool on_policy = false;
    int64_t max_ahead = 0;  // free-running: steps made and not yet learnt from, at most; 0: no bound of its own
    int64_t max_replacements = 10;
    int64_t first_version = 0;   // of the weights published first: a continued run has no earlier ones
    int64_t first_sequence = 0;  // deterministic: the first rollout to make
    bool packed = false;         // rollouts travel without what stacks of frames repeat: for a network between
    double timeout = 0;          // seconds that one remote call may take before its actor counts as failed; 0: any time
    std::chrono::nanoseconds shutdown = std::chrono::seconds(5);  // for actors in the middle of a call
  };

  virtual ~RolloutSource() = default;

  // Restores one state per actor; before start(). Rollouts that waited at the checkpoint go back into the queue.
  virtual void restore(const std::vector<ActorState>& states, std::vector<Rollout> waiting) = 0;
  virtual void start() = 0;
  // The weights of `version`; versions rise by one.
  virtual void publish(int64_t version, Weights weights) = 0;

  // So many steps were learnt from, or thrown away.
  virtual void learnt(int64_t /*steps*/) {}

  // Empty also when `give_up` says so; it is asked a few times a second while nothing comes.
  virtual std::optional<Rollout> next(const std::function<bool()>& give_up) = 0;
  virtual std::optional<Rollout> next_from(int actor, const std::function<bool()>& give_up) = 0;

  // Deterministic checkpoint: waits until every actor's next rollout waits (with on_policy there is none) and no actor
  // works, and gives both. Call it after learning version v and before publish(v). False: the source was stopped.
  virtual bool barrier(std::vector<ActorState>& states, std::vector<Rollout>& waiting) = 0;

  virtual int64_t replaced() const = 0;
  virtual size_t waiting() const = 0;
  virtual int actors() const = 0;
  // Figures of its own since the last call, for the metrics. Deterministic runs: none that depend on time.
  virtual LearnStats take_statistics() { return {}; }
  virtual void stop() = 0;
};

}  // namespace parl
