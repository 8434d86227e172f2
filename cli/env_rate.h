// The measurement behind `parl bench env`, as a library: agent steps per second of a vector of environments with random
// actions. Free of torch.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parl/env/vector_env.h"

namespace parl::cli {

struct EnvRateSettings {
  int threads = 2;  // 1..threads are measured
  int envs = 16;
  double seconds = 4;  // for each figure, in slices of one second; one more second warms up
  uint64_t seed = 0;
};

struct EnvRate {
  int threads = 1;
  double sync_steps_per_s = 0;   // all environments step, then the caller goes on: median of the slices
  double async_steps_per_s = 0;  // the caller goes on with the first half that is ready; 0 for one thread
  double best() const { return sync_steps_per_s > async_steps_per_s ? sync_steps_per_s : async_steps_per_s; }
};

// One entry for each number of threads. Blocks for threads * 2 * seconds or so. Throws parl::Error.
using EnvFactories = std::function<VectorEnv::Factory()>;  // a factory for each of the vectors that are made
std::vector<EnvRate> measure_env_rates(const EnvRateSettings& settings, const EnvFactories& factory);

}  // namespace parl::cli
