// check_parallel_env: does a game of several agents keep the contract of parallel_env.h?
//
//   TEST(MyGame, KeepsTheContract) { check_parallel_env([] { return std::make_unique<MyGame>(); }); }
//
// It plays fresh games with random actions and looks at: the spec; seeding (seed 0 too) and determinism; that living
// agents' observations are written, lie in their spaces, and that nothing is written outside their places; that agents
// that have left get nothing written; that an agent leaves exactly when a flag is set, and that the game ends; step()
// before reset() and after the end being errors; bad actions being errors; save and load of the state where offered;
// that drawing changes nothing; no allocation in step() and reset() where they can be counted. Throws parl::Error with
// all that is wrong (a failure in GoogleTest). Thread rule: runs in the caller's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parl/env/parallel_env.h"

namespace parl {

struct ParallelConformanceOptions {
  int steps = 2000;    // random steps per run
  uint64_t seed = 17;  // of the random actions
  std::function<uint64_t()> allocations = {};
  bool seeds_differ = true;
  bool ends = true;
};

using ParallelEnvFactory = std::function<std::unique_ptr<ParallelEnv>()>;

void check_parallel_env(const ParallelEnvFactory& factory, const ParallelConformanceOptions& options = {});

}  // namespace parl
