// EsWorker: the remote object of evolution strategies: it plays episodes with perturbed copies of one network.
//
// An outcome depends on (seed, generation, pair, weights) alone: the noise comes from a table that every worker makes
// from the seed (algorithms/es.h), and every episode begins with a seed of its own, the same for both networks of a
// pair. So it does not matter which worker plays what, nor how often one had to be replaced. Episodes are full games in
// raw score (EnvMode::kEvaluation). Thread rule: one thread, its object's own. Throws what the environment throws.
#pragma once

#include <memory>
#include <vector>

#include "parl/agent/weights.h"
#include "parl/algorithms/es.h"
#include "parl/core/fields.h"
#include "parl/data/rollout.h"
#include "parl/remote/remote.h"
#include "parl/train/actor.h"

namespace parl {

struct EsTask {
  int64_t generation = 0, first = 0, count = 0;  // pairs [first, first + count)
};
PARL_FIELDS(EsTask, generation, first, count);

struct EsOutcome {
  std::vector<double> returns;    // [2 * count]: plus and minus of each pair by turns, means over their episodes
  std::vector<Episode> episodes;  // in the same order
  int64_t steps = 0;              // agent steps played
  double env_seconds = 0, act_seconds = 0;
};
PARL_FIELDS(EsOutcome, returns, episodes, steps, env_seconds, act_seconds);

class EsWorker {
 public:
  // config.settings: EsConfig as JSON. config.envs: episodes of one network that are played at once.
  explicit EsWorker(ActorConfig config);
  EsWorker(EsWorker&&) noexcept;
  ~EsWorker();

  EsOutcome evaluate(const Versioned<Weights>& weights, const EsTask& task);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
PARL_REMOTE_CLASS(EsWorker, evaluate);

}  // namespace parl
