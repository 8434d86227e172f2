// What is not finite would stay in a replay buffer and come up later, far from its cause: so it is refused on arrival.
#pragma once

#include "parl/agent/batch.h"
#include "parl/agent/model.h"

namespace parl {

// Throws NonFiniteError naming "reward" or "obs", with the batch and the model's weights for a dump. Any thread.
void check_finite(const Batch& batch, const Model& model);

}  // namespace parl
