// Ppo: proximal policy optimization with the clipped objective (Schulman et al. 2017, arXiv 1707.06347) and GAE.
// Targets and advantages are computed once per batch, as in the paper; recompute_targets does it for every pass
// (Andrychowicz et al. 2020, arXiv 2006.05990, section 3.5). How it learns: actor_critic.h. Its batches must be
// on-policy: train it with max_lag 0.
#pragma once

#include "parl/algorithms/actor_critic.h"

namespace parl {

struct PpoConfig : ActorCriticConfig {
  PpoConfig() {
    estimator = Estimator::kGae;
    lambda = 0.95;
    loss_reduction = Reduction::kMean;
    max_grad_norm = 0.5;
    optimizer = OptimizerKind::kAdam;
    lr = 2.5e-4;
    eps = 1e-5;
    epochs = 4;
    minibatches = 4;
    minibatch_of = MinibatchOf::kAuto;
    recompute_targets = false;
    clip = 0.2;
    normalize_advantage = true;
  }
};
PARL_CONFIG(PpoConfig, PARL_ACTOR_CRITIC_LOSS_FIELDS,
            (lambda, "GAE's decay: 1 is the n-step return, 0 the one-step difference"),
            PARL_ACTOR_CRITIC_OPTIMIZER_FIELDS, PARL_ACTOR_CRITIC_PASSES_FIELDS,
            (clip, "how far the ratio to the policy that acted may move from 1 with a gain"),
            PARL_ACTOR_CRITIC_WORK_FIELDS);

class Ppo : public ActorCritic {
 public:
  explicit Ppo(std::shared_ptr<Model> model, PpoConfig config = {}, ReplicaFactory replicas = {},
               const std::string& device = "cpu")
      : ActorCritic(std::move(model), std::move(config), std::move(replicas), device) {}
};

}  // namespace parl
