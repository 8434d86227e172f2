// The environments of an ActorConfig, and the seeds of its streams, whoever acts in them.
#pragma once

#include <memory>

#include "parl/core/rng.h"
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

}  // namespace parl
