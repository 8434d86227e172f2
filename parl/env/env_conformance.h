// check_env: does an environment keep the contract of env.h? Every environment of PARL passes it; so should yours:
//
//   TEST(MyEnv, KeepsTheContract) {
//     check_env([] { return std::make_unique<MyEnv>(); }, {.allocations = allocations_of_this_thread});
//   }
//
// It drives fresh environments with random actions and looks at: the spec; seeding (seed 0 too, and that a seed undoes
// what went before); determinism; that every byte of an observation is written, none outside its place, and all values
// lie in the space; that an episode goes on until terminated or truncated is set, and no longer than max_episode_steps;
// step() before reset() and after an end being errors, reset() after either kind of end; bad actions being errors; no
// allocation in step() and reset(); save and load of the state, where offered; that drawing changes nothing; that each
// finished episode is recorded once, with its length and raw return.
// Throws parl::Error with all that is wrong (a failure in GoogleTest). Needs no test framework.
// Thread rule: runs in the caller's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parl/env/env.h"

namespace parl {

struct ConformanceOptions {
  int steps = 1000;    // random steps per run; about a dozen runs are made
  uint64_t seed = 17;  // of the random actions
  // Counts the calling thread's memory allocations so far (allocation_counter.h). Without it they are not checked.
  std::function<uint64_t()> allocations = {};
  bool seeds_differ = true;     // different seeds give different runs (false: the task has no randomness)
  bool ends = true;             // some episode ends within `steps` random steps
  bool episode_per_end = true;  // false: one recorded episode may span several ends (lost lives)
  bool raw_rewards = true;      // false: rewards are changed by a wrapper, recorded returns are not their sum
};

using EnvFactory = std::function<std::unique_ptr<Env>()>;

void check_env(const EnvFactory& factory, const ConformanceOptions& options = {});

// The same as a list of sentences; empty when all is well.
std::vector<std::string> conformance_problems(const EnvFactory& factory, const ConformanceOptions& options = {});

}  // namespace parl
