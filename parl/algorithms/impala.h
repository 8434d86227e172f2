// Impala: the V-trace actor-critic (Espeholt et al. 2018, arXiv 1802.01561) over any Model with a Discrete policy; with
// clip > 0 and epochs > 1 it is APPO. How it learns: actor_critic.h.
//
//   auto model = builtin_models().make("atari42", spec);
//   Impala learner(model, config);
//   LearnStats stats = learner.learn(batch, agent_steps);
//   Impala actor(builtin_models().make("atari42", spec), config);   // never learns: has no optimizer, no gradients
//   actor.set_weights(learner.get_weights());
//   ActOutput out = actor.sample(obs, uniforms);
#pragma once

#include "parl/algorithms/actor_critic.h"

namespace parl {

struct ImpalaConfig : ActorCriticConfig {};
PARL_CONFIG(ImpalaConfig, PARL_ACTOR_CRITIC_LOSS_FIELDS, (lambda, "trace decay: multiplies c in V-trace"),
            (rho_clip, "upper bound of rho in the value targets; 0: none"),
            (c_clip, "upper bound of the trace coefficient c; 0: none"),
            (pg_rho_clip, "upper bound of rho in the policy gradient; 0: none"), PARL_ACTOR_CRITIC_OPTIMIZER_FIELDS,
            PARL_ACTOR_CRITIC_PASSES_FIELDS,
            (clip, "clip of the ratio to the behaviour policy around 1 (APPO); 0: plain policy gradient"),
            PARL_ACTOR_CRITIC_WORK_FIELDS);

class Impala : public ActorCritic {
 public:
  explicit Impala(std::shared_ptr<Model> model, ImpalaConfig config = {}, ReplicaFactory replicas = {},
                  const std::string& device = "cpu")
      : ActorCritic(std::move(model), std::move(config), std::move(replicas), device) {}
};

}  // namespace parl
