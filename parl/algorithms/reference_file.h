// For tests: what PyTorch computed for an actor-critic, in a file of testdata/ (scripts/reference_*.py): per case the
// initial parameters, and per learn() call a batch, its loss, the gradient's norm and the parameters after it.
#pragma once

#include <string>

#include "parl/agent/algorithm.h"
#include "parl/algorithms/actor_critic.h"

namespace parl {

struct ReferenceFile {
  explicit ReferenceFile(const std::string& name);  // "actor_critic" for testdata/actor_critic_reference.safetensors
  at::Tensor get(const std::string& entry) const;
  void set_initial(Model& model, const std::string& name) const;  // of that case
  // The batch of "case/step/"; without a memory's state where the file has none.
  Batch batch(const std::string& at) const;
  // Loss, norm and parameters after the call; with_gradient: those of its last update, too (after clipping).
  void expect_update(const std::string& name, int64_t step, const LearnStats& stats, const Model& model,
                     double max_grad_norm, bool with_gradient) const;

  Weights tensors;
  std::string cases;  // JSON: settings by case
};

// The settings of one case, which names all of them.
ActorCriticConfig actor_critic_config_of(const std::string& case_json);

}  // namespace parl
