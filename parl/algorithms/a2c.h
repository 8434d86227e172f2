// A2c: the synchronous advantage actor-critic (Mnih et al. 2016, arXiv 1602.01783, with all actors in step) with GAE
// (Schulman et al. 2016, arXiv 1506.02438): one gradient step per batch, learnt from the newest weights alone. How it
// learns: actor_critic.h. Its batches must be on-policy: train it with max_lag 0.
#pragma once

#include "parl/algorithms/actor_critic.h"

namespace parl {

struct A2cConfig : ActorCriticConfig {
  A2cConfig() {
    estimator = Estimator::kGae;
    loss_reduction = Reduction::kMean;
    max_grad_norm = 0.5;
    lr = 7e-4;
    eps = 1e-5;
  }
};
PARL_CONFIG(A2cConfig, PARL_ACTOR_CRITIC_LOSS_FIELDS,
            (lambda, "GAE's decay: 1 is the n-step return, 0 the one-step difference"),
            PARL_ACTOR_CRITIC_OPTIMIZER_FIELDS, PARL_ACTOR_CRITIC_WORK_FIELDS);

class A2c : public ActorCritic {
 public:
  explicit A2c(std::shared_ptr<Model> model, A2cConfig config = {}, ReplicaFactory replicas = {},
               const std::string& device = "cpu")
      : ActorCritic(std::move(model), std::move(config), std::move(replicas), device) {}
};

}  // namespace parl
