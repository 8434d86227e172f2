// VectorEnv: N environments of one kind, stepped together, in the caller's thread or by a pool of threads.
//
// Autoreset happens in the same step: when an episode ends, the observation written is the reset observation of the
// next one, and the final observation of a *truncated* episode is kept (final_observation(i)) until that environment's
// next step. There is no dummy step between episodes. Observations are written straight where the caller says: obs(i)
// is a place for environment i (rows of a rollout slot). Agents that share one (parallel_env.h) are neighbours in the
// vector. Seeds: environment i of the vector is seeded once with `seed` mixed with its global index (first_index + i),
// so that results do not depend on how environments are split over actors or threads. Thread rule: one owner thread.
// With pool threads (threads > 1) results are bit-identical to threads = 1. Errors: what an environment throws is
// rethrown to the caller with the environment's index; the vector must then be reset.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "parl/env/env.h"

namespace parl {

class VectorEnv {
 public:
  using Factory = std::function<std::unique_ptr<Env>(int index)>;  // index: 0..count-1
  using ObsPlace = std::function<std::span<std::byte>(int index)>;

  struct Options {
    int count = 1;
    uint64_t seed = 0;
    int64_t first_index = 0;  // global index of environment 0
    int threads = 1;          // 1: the caller's thread; N > 1: N pool threads (the caller waits)
  };

  VectorEnv(Options options, const Factory& factory);
  ~VectorEnv();

  int count() const;
  const EnvSpec& spec() const;
  Env& env(int index);

  // Seeds (first call) or continues, and writes every first observation.
  void reset(const ObsPlace& obs);

  // actions: `count` indices (Discrete), count * K indices (MultiDiscrete and MultiBinary of K numbers), or count *
  // action size floats (Box); the other span empty.
  // results[i] is filled for every environment. Synchronous: returns when all have stepped.
  void step(std::span<const int64_t> indices, std::span<const float> values, const ObsPlace& obs,
            std::span<StepResult> results);

  // The last observation of the episode that ended by truncation in the latest step of environment `index`;
  // empty when that step did not truncate.
  std::span<const std::byte> final_observation(int index) const;

  // Asynchronous: send() starts steps of the named environments on the pool, receive() waits until `minimum` of them
  // are ready and returns their indices (in order of completion). Needs threads > 1.
  void send(std::span<const int> which, std::span<const int64_t> indices, std::span<const float> values,
            const ObsPlace& obs);
  std::span<const int> receive(int minimum);
  const StepResult& result(int index) const;  // of the latest finished step

  void take_episodes(std::vector<Episode>& out);

  bool can_save_state() const;
  std::vector<std::byte> save_state() const;  // all environments and the seeding state
  void load_state(std::span<const std::byte> state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parl
