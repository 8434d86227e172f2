// Ga3c: the asynchronous advantage actor-critic with one network for all (Babaeizadeh et al. 2017, arXiv 1611.06256):
// environments hold no network, the learner's process predicts for all of them in batches (train/central_source.h).
// What is learnt is A3C's (Mnih et al. 2016, arXiv 1602.01783): n-step returns, one gradient step per batch, an entropy
// bonus. A3C does not correct for the age of the policy that acted: keep the lag small (the run's max_lag), or let
// V-trace correct for it (vtrace). How it learns: actor_critic.h.
#pragma once

#include "parl/algorithms/actor_critic.h"
#include "parl/core/check.h"

namespace parl {

struct Ga3cConfig : ActorCriticConfig {
  Ga3cConfig() {
    estimator = Estimator::kGae;
    loss_reduction = Reduction::kMean;
    max_grad_norm = 0.5;
    lr = 7e-4;
    eps = 1e-5;
  }
  bool vtrace = false;
  int64_t predictors = 1;
  int64_t prediction_batch = 128;
  double prediction_wait = 0;

  // Throws parl::Error naming the field.
  void check() const {
    ActorCriticConfig::check();
    PARL_CHECK(predictors >= 1 && predictors <= 100, "predictors is {}, expected 1..100", predictors);
    PARL_CHECK(prediction_batch >= 1, "prediction-batch is {}, expected at least 1", prediction_batch);
    PARL_CHECK(prediction_wait >= 0 && prediction_wait <= 1000, "prediction-wait is {} ms, expected 0..1000",
               prediction_wait);
  }
};
PARL_CONFIG(Ga3cConfig, PARL_ACTOR_CRITIC_LOSS_FIELDS,
            (lambda, "decay of the returns: 1 is the n-step return, less is GAE"),
            (vtrace, "corrects for the age of the policy that acted, as IMPALA does"),
            (predictors, "threads that choose actions, each with a copy of the network"),
            (prediction_batch, "observations in one forward pass, at most"),
            (prediction_wait,
             "milliseconds that a batch which is not full may wait for more; 0: what is there is taken"),
            PARL_ACTOR_CRITIC_OPTIMIZER_FIELDS, PARL_ACTOR_CRITIC_WORK_FIELDS);

class Ga3c : public ActorCritic {
 public:
  explicit Ga3c(std::shared_ptr<Model> model, Ga3cConfig config = {}, ReplicaFactory replicas = {},
                const std::string& device = "cpu")
      : ActorCritic(std::move(model), learning(config), std::move(replicas), device) {}

 private:
  static ActorCriticConfig learning(const Ga3cConfig& config) {
    ActorCriticConfig out = config;
    if (config.vtrace) out.estimator = Estimator::kVtrace;
    return out;
  }
};

}  // namespace parl
