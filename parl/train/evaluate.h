// Evaluation: full games in raw score, on environments apart from training (mode kEvaluation, own seeds).
//
// Episodes are fixed in advance by a quota per environment, not "the first N to finish", which would favour short
// games. Thread rule: the caller's thread steps everything; the algorithm belongs to it for that long. Errors:
// parl::Error for unknown environments, options or policies.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "parl/agent/algorithm.h"
#include "parl/env/env.h"

namespace parl {

struct EvalOptions {
  std::string env = {};
  std::map<std::string, std::string> env_args = {};
  int64_t episodes = 10;
  int64_t envs = 8;             // at most; never more than episodes
  std::string policy = "auto";  // greedy | sample | auto: sample on Atari, greedy elsewhere
  uint64_t seed = 0;            // of the run; evaluation derives streams of its own from it
  uint64_t stream = 0;          // other episodes for the same seed: what chose a checkpoint shall not judge it
  std::function<void(Env&)> on_frame =
      {};                           // after every step (and first reset) of environment 0, until its quota is done
  std::function<bool()> stop = {};  // asked once a step; true ends the evaluation early
};

struct EvalSummary {
  std::string policy;
  std::vector<Episode> episodes;  // in order of environment, then time
  bool complete = true;           // false: stopped early; its means favour short games
  int64_t truncated = 0;
  double return_mean = 0, return_std = 0, return_median = 0, return_min = 0, return_max = 0, length_mean = 0;
};

EvalSummary evaluate(Algorithm& algorithm, const EvalOptions& options);

// "auto" resolved for an environment.
std::string resolve_policy(const std::string& policy, const std::string& env);

}  // namespace parl
