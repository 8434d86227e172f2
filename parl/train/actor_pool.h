// ActorPool: the remote actors of one run and the threads that call them.
//
// One driver thread per actor: it takes the weights it is entitled to, calls actor->sample(weights) as if the actor
// were local, and puts the rollout into the queue. When an actor starts its next one: rollout_source.h; free-running
// actors take the newest published weights then.
// An actor that fails (its process died, its environment threw) is replaced by a new one with fresh streams; after
// `max_replacements` of them the queue fails with the last error. stop() asks for what is still at work to end, and
// leaves an environment that hangs to the manager's close(), so that it returns.
// Thread rule: one owner thread calls publish, next*, save_actors, stop. stop() and the destructor join all threads.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "parl/data/rate_limiter.h"
#include "parl/data/rollout_queue.h"
#include "parl/train/actor.h"
#include "parl/train/published_weights.h"
#include "parl/train/replacements.h"
#include "parl/train/rollout_source.h"

namespace parl {

class ActorPool : public RolloutSource {
 public:
  // Creates all actors (starts overlap). Throws when one cannot be created.
  ActorPool(RemoteManager& manager, Options options, const std::vector<ActorConfig>& configs);
  ~ActorPool() override;

  void restore(const std::vector<ActorState>& states, std::vector<Rollout> waiting) override;
  void start() override;
  void publish(int64_t version, Weights weights) override { weights_.publish(version, std::move(weights)); }
  void learnt(int64_t steps) override { limiter_.done(steps); }
  int64_t ahead() const { return limiter_.ahead(); }
  std::optional<Rollout> next(const std::function<bool()>& give_up) override { return queue_.pop(give_up); }
  std::optional<Rollout> next_from(int actor, const std::function<bool()>& give_up) override {
    return queue_.pop_from(actor, give_up);
  }
  bool barrier(std::vector<ActorState>& states, std::vector<Rollout>& waiting) override;
  int64_t replaced() const override { return replacements_.count(); }
  size_t waiting() const override { return queue_.size(); }
  int actors() const override { return static_cast<int>(remotes_.size()); }
  void stop() override;

 private:
  void drive(int actor);
  Rollout sample(Remote<Actor>& remote, Versioned<Weights> weights) const;
  bool replace(int actor, const std::exception& error);

  RemoteManager& manager_;
  const Options options_;
  std::vector<ActorConfig> configs_;
  std::vector<std::shared_ptr<Remote<Actor>>> remotes_;  // swapped on replacement, under mutex_
  RolloutQueue queue_;
  RateLimiter limiter_;

  std::mutex mutex_;
  PublishedWeights weights_;
  Replacements replacements_;
  std::vector<std::thread> drivers_;
};

}  // namespace parl
