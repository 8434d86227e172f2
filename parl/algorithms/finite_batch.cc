#include "parl/algorithms/finite_batch.h"

#include <torch/torch.h>

#include "parl/agent/nonfinite.h"

namespace parl {

void check_finite(const Batch& batch, const Model& model) {
  for (const auto& [name, tensor] : {std::pair{"reward", batch.reward}, std::pair{"obs", batch.obs}}) {
    if (tensor.is_floating_point() && !at::isfinite(tensor).all().item<bool>()) {
      throw NonFiniteError(name, fmt::format("NaN or inf in '{}' of a rollout; nothing was learnt from it", name),
                           batch, model.get_weights());
    }
  }
}

}  // namespace parl
