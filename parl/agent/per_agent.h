// Weights of several agents in one set: an agent's name stands before its entries', "near/trunk.0.weight". What belongs
// to acting in training keeps its place in front: "exploration/near/epsilon".
#pragma once

#include <string>

#include "parl/agent/weights.h"

namespace parl {

// Adds the entries of `part` to `all`, as those of `agent`.
void append_of_agent(Weights& all, const std::string& agent, Weights part);
// The entries of `agent` under their own names; none when it has none.
Weights part_of_agent(const Weights& all, const std::string& agent);
// The same; throws with the agents that there are when it has none.
Weights weights_of_agent(const Weights& all, const std::string& agent);

}  // namespace parl
