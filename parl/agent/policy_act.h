// What every algorithm does that acts straight from its network's policy: a forward pass (one step of a network with a
// memory), and an action of each row, drawn or greedy. Thread rule: the model's.
#pragma once

#include "parl/agent/algorithm.h"

namespace parl {

// `device` is where the model is; the results are on the CPU. Throws when a network with a memory is given no state.
ActOutput policy_act(Model& model, const ActInput& in, at::Device device);

}  // namespace parl
