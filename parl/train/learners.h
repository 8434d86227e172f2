// Learners that train one run together (--learners N): which one this command is, and starting the others.
//
//   --learners 2                                  both on this machine; this command is learner 0 and starts learner 1
//   --learners 2 --learner-rank R --learner-address host:port      one command each, on any machines
//   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT    the same from the environment, as torchrun sets it
// Learners that are started here are remote objects of the process engine, so main() begins with parl::init.
// Thread rule: the caller's thread. Throws parl::Error.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "parl/remote/remote.h"
#include "parl/train/learner_group.h"
#include "parl/train/train_config.h"
#include "parl/train/trainer.h"

namespace parl {

// With what torchrun's environment says about the learners, if it is set and the settings do not say otherwise.
TrainConfig with_learner_place(TrainConfig config);

// "cpu" or "cuda:N"; of "cuda:*" the GPU of this learner.
std::string device_of(const TrainConfig& config);

// Where this learner writes: learner 0 into the run directory, the others into a part of it, for their log and dumps.
std::string directory_of(const TrainConfig& config);

// For config.json: which learner wrote it is of no use to the next command.
std::string saved_settings(TrainConfig config);

// Runs `train_one` as one learner of config.learners > 1, whose group it is given. Ends what it started.
TrainSummary train_with_others(
    const TrainConfig& config, const TrainHooks& hooks,
    const std::function<TrainSummary(const TrainConfig&, std::shared_ptr<LearnerGroup>)>& train_one);

// Learner 1, 2, ... in a process of its own.
class LearnerProcess {
 public:
  // The settings as JSON, rank and address among them.
  void run(const std::string& settings);
};
PARL_REMOTE_CLASS(LearnerProcess, run);

}  // namespace parl
