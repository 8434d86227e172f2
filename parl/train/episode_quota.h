// Playing apart from training: how many environments, how many episodes each must finish, and an algorithm that leaves
// out what only training wants. Episodes are fixed in advance, not "the first N to finish", which would favour short
// ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "parl/agent/algorithm.h"
#include "parl/core/check.h"
#include "parl/train/program.h"

namespace parl {

class EpisodeQuota {
 public:
  // `episodes` in all, over at most `envs` environments; rounded up so that no agent of a shared environment is
  // missing.
  EpisodeQuota(const EnvRequest& request, int64_t episodes, int64_t envs) : episodes_(episodes) {
    PARL_CHECK_GT(episodes, 0, "at least one episode must be played");
    PARL_CHECK_GT(envs, 0, "at least one environment must play");
    const int64_t agents = program().envs.agents_of(request), wanted = std::min(envs, episodes);
    count_ = static_cast<int>((wanted + agents - 1) / agents * agents);
  }
  int environments() const { return count_; }
  size_t of(int env) const { return static_cast<size_t>(episodes_ / count_ + (env < episodes_ % count_ ? 1 : 0)); }

 private:
  int64_t episodes_;
  int count_ = 0;
};

// Exploration that only training wants is off for as long as this lives.
class PlaysForEvaluation {
 public:
  explicit PlaysForEvaluation(Algorithm& algorithm) : algorithm_(algorithm) { algorithm_.play_for_evaluation(true); }
  ~PlaysForEvaluation() { algorithm_.play_for_evaluation(false); }
  PlaysForEvaluation(const PlaysForEvaluation&) = delete;
  PlaysForEvaluation& operator=(const PlaysForEvaluation&) = delete;

 private:
  Algorithm& algorithm_;
};

}  // namespace parl
