// check_algorithm: does an algorithm keep algorithm.h's contract? Every one of PARL's passes it; so should yours:
//
//   check_algorithm(program().algorithm("reinforce"), program().config_of("reinforce"));
//
// It makes learners and actors from the entry, as a run does, and gives them batches in which one action pays (discrete
// algorithms: action 1 of 3; those of continuous actions: 0.5). It looks at: that the action is found, by sample() and
// by predict(); that an object made anew from weights, state and replay buffer learns on to the bit; that an actor with
// the learner's weights acts as the learner, to the bit; that every number learn() reports is finite; that the settings
// come back from JSON as they went.
// Throws parl::Error with all that is wrong (a failure in GoogleTest). Needs no test framework. For algorithms that
// learn from batches: not those with a `train` of their own. Thread rule: runs in the caller's thread; it seeds torch's
// global generator.
#pragma once

#include <string>
#include <vector>

#include "parl/train/program.h"
#include "parl/train/train_config.h"

namespace parl {

// `config.settings`: the settings under which it is checked.
void check_algorithm(const AlgorithmEntry& entry, const TrainConfig& config);

// The same as a list of sentences; empty when all is well.
std::vector<std::string> algorithm_problems(const AlgorithmEntry& entry, const TrainConfig& config);

}  // namespace parl
