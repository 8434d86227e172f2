// ActorPool: the remote actors of one run and the threads that call them.
//
// One driver thread per actor: it takes the weights it is entitled to, calls actor->sample(weights) as if the actor
// were local, and puts the rollout into the queue; at most one finished rollout waits per actor.
//   free-running    an actor starts its next rollout, under the newest published weights, as soon as nothing of it
//                   waits
//   on_policy       ... and not before newer weights than those of its last rollout are published
//   max_ahead       ... and not while so many steps are made, or being made, that nobody has said learnt() of
//   deterministic   rollout b of every actor is made under version max(0, b - 1) exactly; with on_policy: version b
// An actor that fails (its process died, its environment threw) is replaced by a new one with fresh streams; after
// `max_replacements` of them the queue fails with the last error. stop() asks for what is still at work to end, and
// leaves an environment that hangs to the manager's close(), so that it returns.
// Thread rule: one owner thread calls publish, next*, save_actors, stop. stop() and the destructor join all threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "parl/data/rate_limiter.h"
#include "parl/data/rollout_queue.h"
#include "parl/train/actor.h"

namespace parl {

class ActorPool {
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
    double timeout = 0;          // seconds that one rollout may take before its actor counts as failed; 0: any time
    std::chrono::nanoseconds shutdown = std::chrono::seconds(5);  // for actors in the middle of a rollout
  };

  // Creates all actors (starts overlap). Throws when one cannot be created.
  ActorPool(RemoteManager& manager, Options options, const std::vector<ActorConfig>& configs);
  ~ActorPool();

  // Restores one state per actor; before start(). Rollouts that waited at the checkpoint go back into the queue.
  void restore(const std::vector<ActorState>& states, std::vector<Rollout> waiting);
  void start();
  // The weights of `version`; versions rise by one. Deterministic runs keep the last two.
  void publish(int64_t version, Weights weights);

  // So many steps were learnt from, or thrown away.
  void learnt(int64_t steps) { limiter_.done(steps); }
  int64_t ahead() const { return limiter_.ahead(); }

  // Empty also when `give_up` says so; it is asked a few times a second while nothing comes.
  std::optional<Rollout> next(const std::function<bool()>& give_up) { return queue_.pop(give_up); }
  std::optional<Rollout> next_from(int actor, const std::function<bool()>& give_up) {
    return queue_.pop_from(actor, give_up);
  }

  // Deterministic checkpoint: waits until every actor's next rollout waits (with on_policy there is none) and no actor
  // works, and gives both. Call it after learning version v and before publish(v). False: the pool was stopped.
  bool barrier(std::vector<ActorState>& states, std::vector<Rollout>& waiting);

  int64_t replaced() const { return replaced_; }
  size_t waiting() const { return queue_.size(); }
  int actors() const { return static_cast<int>(remotes_.size()); }
  void stop();

 private:
  std::optional<Versioned<Weights>> weights_for(int64_t sequence, int64_t last_version);
  void drive(int actor);
  Rollout sample(Remote<Actor>& remote, Versioned<Weights> weights) const;
  bool replace(int actor, const std::exception& error);

  RemoteManager& manager_;
  const Options options_;
  std::vector<ActorConfig> configs_;
  std::vector<std::shared_ptr<Remote<Actor>>> remotes_;  // swapped on replacement, under mutex_
  RolloutQueue queue_;
  RateLimiter limiter_;

  mutable std::mutex mutex_;
  std::condition_variable published_;
  std::deque<Versioned<Weights>> versions_;  // newest at the back
  bool stopping_ = false;
  std::atomic<int64_t> replaced_{0};
  std::vector<std::thread> drivers_;
};

}  // namespace parl
