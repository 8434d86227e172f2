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
      limiter_(options.deterministic ? 0 : options.max_ahead) {
  PARL_CHECK_EQ(configs.size(), static_cast<size_t>(options.actors));
  // Starts overlap: loading libtorch costs a worker process most of a second.
  auto remotes = manager_.create_each<Actor>(options_.actors, [&](int i) { return configs_[static_cast<size_t>(i)]; });
  for (Remote<Actor>& remote : remotes) remotes_.push_back(std::make_shared<Remote<Actor>>(std::move(remote)));
}

ActorPool::~ActorPool() { stop(); }

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

void ActorPool::publish(int64_t version, Weights weights) {
  {
    std::lock_guard lock(mutex_);
    versions_.emplace_back(version, std::move(weights));
    while (versions_.size() > (options_.deterministic ? 2u : 1u)) versions_.pop_front();
  }
  published_.notify_all();
}

// Waits for the weights that rollout `sequence` is made with; the actor's last one was made with `last_version`.
// Empty: stopping.
std::optional<Versioned<Weights>> ActorPool::weights_for(int64_t sequence, int64_t last_version) {
  std::unique_lock lock(mutex_);
  const int64_t wanted = std::max(options_.first_version, options_.on_policy ? sequence : sequence - 1);
  published_.wait(lock, [&] {
    if (stopping_) return true;
    if (versions_.empty()) return false;
    if (options_.deterministic) return versions_.back().version() >= wanted;
    return !options_.on_policy || versions_.back().version() > last_version;
  });
  if (stopping_) return std::nullopt;
  if (!options_.deterministic) return versions_.back();
  for (const auto& v : versions_) {
    if (v.version() == wanted) return v;
  }
  raise("rollout {} needs weight version {}, which is gone", sequence, wanted);
}

void ActorPool::drive(int actor) {
  int64_t sequence = options_.first_sequence, last_version = -1;
  const ActorConfig& config = configs_[static_cast<size_t>(actor)];
  const int64_t steps = config.envs * config.length;
  try {
    for (;;) {
      if (!options_.deterministic && (!queue_.wait_free(actor) || !limiter_.start(steps))) return;
      auto weights = weights_for(sequence, last_version);
      if (!weights) return;
      std::shared_ptr<Remote<Actor>> remote;
      {
        std::lock_guard lock(mutex_);
        remote = remotes_[static_cast<size_t>(actor)];
      }
      try {
        const auto timeout = std::chrono::duration<double>(options_.timeout);
        Rollout rollout = options_.timeout > 0
                              ? remote->within(std::chrono::duration_cast<std::chrono::nanoseconds>(timeout))
                                    ->sample(std::move(*weights))
                              : (*remote)->sample(std::move(*weights));
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
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
  }
  const int64_t count = ++replaced_;
  log().error("actor {} failed: {}", actor, error.what());
  if (count > options_.max_replacements) {
    raise("actor {} failed and {} actors have been replaced already (--max-replacements): {}", actor,
          options_.max_replacements, error.what());
  }
  ActorConfig& config = configs_[static_cast<size_t>(actor)];
  ++config.generation;
  auto fresh = std::make_shared<Remote<Actor>>(manager_.create<Actor>(config));
  log().warn("actor {} replaced ({} of at most {} replacements){}", actor, count, options_.max_replacements,
             options_.deterministic ? "; its streams are fresh: this run can no longer be repeated to the bit" : "");
  std::lock_guard lock(mutex_);
  remotes_[static_cast<size_t>(actor)] = std::move(fresh);
  return !stopping_;
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
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  published_.notify_all();
  queue_.close();
  limiter_.close();
  if (!drivers_.empty()) manager_.close(options_.shutdown);
  for (auto& t : drivers_) t.join();
  drivers_.clear();
}

}  // namespace parl
