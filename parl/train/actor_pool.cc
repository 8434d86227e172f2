#include "parl/train/actor_pool.h"

#include <algorithm>

#include "parl/core/check.h"
#include "parl/core/log.h"

namespace parl {

ActorPool::ActorPool(RemoteManager& manager, Options options, const std::vector<ActorConfig>& configs)
    : manager_(manager),
      options_(options),
      configs_(configs),
      queue_(options.actors),
      limiter_(options.deterministic ? 0 : options.max_ahead),
      weights_(options),
      replacements_(options.max_replacements) {
  PARL_CHECK_EQ(configs.size(), static_cast<size_t>(options.actors));
  // Starts overlap: loading libtorch costs a worker process most of a second.
  auto remotes = manager_.create_each<Actor>(options_.actors, [&](int i) { return configs_[static_cast<size_t>(i)]; });
  for (Remote<Actor>& remote : remotes) remotes_.push_back(std::make_shared<Remote<Actor>>(std::move(remote)));
}

ActorPool::~ActorPool() { ActorPool::stop(); }

void ActorPool::restore(const std::vector<ActorState>& states, std::vector<Rollout> waiting) {
  PARL_CHECK_EQ(states.size(), remotes_.size(),
                "the checkpoint was written with another number of actors: use the same --actors");
  for (size_t i = 0; i < states.size(); ++i) (*remotes_[i])->load_state(states[i]);
  for (Rollout& r : waiting) {
    const auto actor = static_cast<int>(r.actor);
    queue_.push(actor, std::move(r));
  }
}

void ActorPool::start() {
  for (int i = 0; i < actors(); ++i) drivers_.emplace_back([this, i] { drive(i); });
}

Rollout ActorPool::sample(Remote<Actor>& remote, Versioned<Weights> weights) const {
  const auto call = [&](auto&& actor) {
    return options_.packed ? unpack_rollout(actor->sample_packed(std::move(weights)))
                           : Rollout(actor->sample(std::move(weights)));
  };
  if (options_.timeout <= 0) return call(remote);
  return call(remote.within(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(options_.timeout))));
}

void ActorPool::drive(int actor) {
  int64_t sequence = options_.first_sequence, last_version = -1;
  const ActorConfig& config = configs_[static_cast<size_t>(actor)];
  const int64_t steps = config.envs * config.length;
  try {
    for (;;) {
      if (!options_.deterministic && (!queue_.wait_free(actor) || !limiter_.start(steps))) return;
      auto weights = weights_.wait_for(sequence, last_version);
      if (!weights) return;
      std::shared_ptr<Remote<Actor>> remote;
      {
        std::lock_guard lock(mutex_);
        remote = remotes_[static_cast<size_t>(actor)];
      }
      try {
        Rollout rollout = sample(*remote, std::move(*weights));
        rollout.sequence = sequence++;
        last_version = rollout.version;
        if (!queue_.push(actor, std::move(rollout))) return;
      } catch (const RemoteError& error) {
        remote.reset();
        limiter_.done(steps);
        if (!replace(actor, error)) return;
      }
    }
  } catch (...) {
    queue_.fail(std::current_exception());
  }
}

// False: the pool is stopping. Throws when no more replacements are allowed or none can be created.
bool ActorPool::replace(int actor, const std::exception& error) {
  if (weights_.stopped()) return false;
  const std::string name = fmt::format("actor {}", actor);
  replacements_.failed(name, error);
  ActorConfig& config = configs_[static_cast<size_t>(actor)];
  ++config.generation;
  auto fresh = std::make_shared<Remote<Actor>>(manager_.create<Actor>(config));
  replacements_.replaced(name, options_.deterministic ? kNoLongerExact : "");
  std::lock_guard lock(mutex_);
  remotes_[static_cast<size_t>(actor)] = std::move(fresh);
  return !weights_.stopped();
}

bool ActorPool::barrier(std::vector<ActorState>& states, std::vector<Rollout>& waiting) {
  PARL_CHECK(options_.deterministic, "only deterministic runs stop their actors for a checkpoint");
  if (!options_.on_policy) {
    waiting = queue_.wait_all_and_copy();
    if (waiting.empty()) return false;
  }
  states.clear();
  for (const auto& remote : remotes_) states.push_back((*remote)->save_state());
  return true;
}

void ActorPool::stop() {
  weights_.stop();
  queue_.close();
  limiter_.close();
  if (!drivers_.empty()) manager_.close(options_.shutdown);
  for (auto& t : drivers_) t.join();
  drivers_.clear();
}

}  // namespace parl
