// The training loop of evolution strategies (algorithms/es.h): generations of perturbed networks, evaluated by remote
// workers (es_worker.h). One update is one generation; agent steps are those that the perturbed networks played, and
// return_mean_100 is the mean of their last 100 episodes (the network in the middle is what --eval-steps evaluates).
//
// --actors is the number of workers. Weights travel once per generation and worker, then numbers of pairs and returns.
// Every run is deterministic in every engine, for any number of workers, also when workers were replaced; it continues
// to the bit, at the last whole generation.
#pragma once

#include "parl/train/trainer.h"

namespace parl {

TrainSummary train_es(const TrainConfig& config, const TrainHooks& hooks);

}  // namespace parl
