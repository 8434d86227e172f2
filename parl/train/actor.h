// Actor: the remote object that collects experience: its own vector of environments, its own copy of the weights.
//
// sample(weights) takes newer weights if there are any and produces one rollout (parl/data/rollout.h) under that
// version. Randomness: environment i and its action sampler draw from streams of (seed, global environment index), so
// that results do not depend on how environments are split over actors or pool threads, nor on the engine. `generation`
// counts the actor's predecessors (replaced after a failure, or a continued run) and gives fresh streams. Thread rule:
// one thread, its object's own. Throws what the environment throws.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parl/agent/weights.h"
#include "parl/core/fields.h"
#include "parl/data/packed_rollout.h"
#include "parl/remote/remote.h"

namespace parl {

struct ActorConfig {
  std::string env = {};
  std::map<std::string, std::string> env_args = {};
  std::string model = {};           // a name of the model registry (TrainConfig::network())
  std::string policies = "shared";  // see TrainConfig
  std::string algorithm = {};       // whose way of acting
  std::string settings = {};        // its settings as JSON; empty: the defaults
  std::string data = {};            // recorded episodes that take the environments' place; empty: none do
  int64_t actor = 0;                // index
  int64_t envs = 1;
  int64_t first_env = 0;  // global index of its first environment
  int64_t length = 1;     // T: steps per unroll
  int64_t pool_threads = 1;
  uint64_t seed = 0;
  int64_t generation = 0;
  double return_discount = -1;  // of Rollout::returns; below 0: none are wanted
};
PARL_FIELDS(ActorConfig, env, env_args, model, policies, algorithm, settings, data, actor, envs, first_env, length,
            pool_threads, seed, generation, return_discount);

// Everything the next sample() depends on, besides the weights.
struct ActorState {
  int64_t sequence = 0;                     // the next rollout's number
  std::vector<uint64_t> sampler_positions;  // per environment
  bool has_env_state = false;               // false: these environments cannot save; their episodes start afresh
  std::vector<uint8_t> env_state;
  Array obs;                    // [B, ...obs_shape]: the observations to act on next
  Array memory;                 // [B, S]: a recurrent network's, before them
  std::vector<double> returns;  // [B]: the discounted returns so far, where they are wanted
};
PARL_FIELDS(ActorState, sequence, sampler_positions, has_env_state, env_state, obs, memory, returns);

// derive_seed(seed, kActionStream): of action samplers, apart from every environment's own stream.
inline constexpr uint64_t kActionStream = 1'000'000'007;
// Of what actors draw from a recording: actor i has stream kRecordedStream + i of its seed.
inline constexpr uint64_t kRecordedStream = uint64_t{1} << 42;

class Actor {
 public:
  explicit Actor(ActorConfig config);
  Actor(Actor&&) noexcept;
  ~Actor();

  Rollout sample(const Versioned<Weights>& weights);
  // The same for a slow connection: what a stack of frames repeats stays behind (parl/data/packed_rollout.h).
  PackedRollout sample_packed(const Versioned<Weights>& weights);
  ActorState save_state();
  void load_state(const ActorState& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
PARL_REMOTE_CLASS(Actor, sample, sample_packed, save_state, load_state);

}  // namespace parl
