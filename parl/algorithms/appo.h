// Appo: asynchronous PPO (Luo et al. 2020, arXiv 1912.00167): IMPALA's actors and V-trace targets, each batch learnt
// several times with ratios clipped against the policy that acted. It is Impala with other defaults; how it learns:
// actor_critic.h.
#pragma once

#include "parl/algorithms/actor_critic.h"

namespace parl {

struct AppoConfig : ActorCriticConfig {
  AppoConfig() {
    lambda = 0.95;
    loss_reduction = Reduction::kMean;
    max_grad_norm = 0.5;
    optimizer = OptimizerKind::kAdam;
    lr = 5e-4;
    eps = 1e-5;
    epochs = 2;
    minibatches = 4;
    minibatch_of = MinibatchOf::kAuto;
    clip = 0.2;
    normalize_advantage = true;
  }
};
PARL_CONFIG(AppoConfig, PARL_ACTOR_CRITIC_LOSS_FIELDS, (lambda, "trace decay: multiplies c in V-trace"),
            (rho_clip, "upper bound of rho in the value targets; 0: none"),
            (c_clip, "upper bound of the trace coefficient c; 0: none"), PARL_ACTOR_CRITIC_OPTIMIZER_FIELDS,
            PARL_ACTOR_CRITIC_PASSES_FIELDS,
            (clip, "how far the ratio to the policy that acted may move from 1 with a gain; not 0"),
            PARL_ACTOR_CRITIC_WORK_FIELDS);

class Appo : public ActorCritic {
 public:
  explicit Appo(std::shared_ptr<Model> model, AppoConfig config = {}, ReplicaFactory replicas = {},
                const std::string& device = "cpu")
      : ActorCritic(std::move(model), std::move(config), std::move(replicas), device) {}
};

}  // namespace parl
