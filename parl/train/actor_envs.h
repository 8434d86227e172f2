// The environments of an ActorConfig, the seeds of its streams and the rollouts that it makes, whoever acts in them.
#pragma once

#include <memory>

#include "parl/agent/spec.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/rng.h"
#include "parl/data/rollout.h"
#include "parl/env/vector_env.h"
#include "parl/train/actor.h"
#include "parl/train/program.h"

namespace parl {

// Generation 0 is the run's seed itself, later ones are streams of their own.
inline uint64_t generation_seed(uint64_t seed, int64_t generation) {
  return generation == 0 ? seed : derive_seed(seed, (uint64_t{1} << 40) + static_cast<uint64_t>(generation));
}

inline std::unique_ptr<VectorEnv> make_envs(const ActorConfig& c) {
  VectorEnv::Options options;
  options.count = static_cast<int>(c.envs);
  options.seed = generation_seed(c.seed, c.generation);
  options.first_index = c.first_env;
  options.threads = static_cast<int>(c.pool_threads);
  return std::make_unique<VectorEnv>(options, program().envs.vector_factory({.id = c.env, .args = c.env_args}, c.envs));
}

// One action sampler for each of its environments.
inline std::vector<CounterRng> make_samplers(const ActorConfig& c) {
  std::vector<CounterRng> samplers;
  const uint64_t seed = derive_seed(generation_seed(c.seed, c.generation), kActionStream);
  for (int64_t i = 0; i < c.envs; ++i) samplers.emplace_back(seed, static_cast<uint64_t>(c.first_env + i));
  return samplers;
}

// A rollout with room for all that is written step by step. `memory` [B, S] is a recurrent network's before the first
// observation, copied; undefined: it has none.
inline Rollout new_rollout(const ActorConfig& c, const ModelSpec& spec, const at::Tensor& memory) {
  const int64_t B = c.envs, T = c.length;
  Rollout r;
  r.actor = c.actor;
  Shape obs = {B, T + 1}, action = {B, T};
  obs.insert(obs.end(), spec.obs_shape.begin(), spec.obs_shape.end());
  const auto numbers = static_cast<int64_t>(spec.action_choices.size());
  if (spec.action_size + numbers > 0) action.push_back(spec.action_size + numbers);  // floats, or several numbers
  r.obs = Array::empty(spec.obs_dtype, obs);
  r.action = Array::empty(spec.action_size > 0 ? DType::kF32 : DType::kI64, action);
  r.behaviour_logits = Array::empty(DType::kF32, {B, T, spec.policy_size()});
  r.reward = Array::empty(DType::kF32, {B, T});
  r.terminated = Array::empty(DType::kBool, {B, T});
  r.truncated = Array::empty(DType::kBool, {B, T});
  if (memory.defined()) r.state = to_array(memory);
  return r;
}

}  // namespace parl
