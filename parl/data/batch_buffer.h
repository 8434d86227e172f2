// BatchBuffer: puts rollouts together into one Batch (parl/agent/batch.h), in the order given.
//
// The tensors are allocated once and reused while the shapes stay the same: the Batch returned is valid until the next
// assemble(). Thread rule: one owner thread. Errors: parl::Error when rollouts do not fit together.
#pragma once

#include <span>

#include "parl/agent/batch.h"
#include "parl/data/rollout.h"

namespace parl {

class BatchBuffer {
 public:
  Batch assemble(std::span<const Rollout> rollouts);

 private:
  Batch buffers_;
};

}  // namespace parl
