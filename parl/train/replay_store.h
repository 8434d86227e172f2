// What a run does for an algorithm with a replay buffer (ReplayOwner, parl/algorithms/replay.h), whichever it is: says
// how much memory it will take and holds it to what there is, saves it beside the checkpoint's other files, reads it
// back. All of it does nothing for algorithms without one. Thread rule: the learner's thread.
#pragma once

#include <functional>
#include <string>

#include "parl/agent/algorithm.h"
#include "parl/train/checkpoint.h"
#include "parl/train/train_config.h"

namespace parl {

// Whether what it learns goes into a buffer first, which lies in main memory wherever the network is.
bool has_replay(Algorithm& algorithm);

// Logs the size. Throws when the buffer cannot fit into the memory that is available, unless config.ignore_memory;
// where only the first batch shows whether it does, that batch throws.
void announce_replay(Algorithm& algorithm, const ModelSpec& spec, const TrainConfig& config);

// Writes the buffer to the path it is called with; empty when there is none or it is not to be saved.
std::function<void(const std::string& path)> replay_writer(Algorithm& algorithm, const TrainConfig& config);

// After algorithm.set_state(checkpoint.algorithm_state).
void restore_replay(Algorithm& algorithm, const Checkpoint& checkpoint);

}  // namespace parl
