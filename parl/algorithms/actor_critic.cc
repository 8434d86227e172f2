#include "parl/algorithms/actor_critic.h"

#include <torch/torch.h>

#include "parl/agent/policy_act.h"
#include "parl/agent/schedule.h"
#include "parl/algorithms/actor_critic_learner.h"
#include "parl/core/check.h"

namespace parl {

void ActorCriticConfig::check() const {
  PARL_CHECK(gamma >= 0 && gamma <= 1, "gamma is {}, expected 0..1", gamma);
  PARL_CHECK(lambda >= 0 && lambda <= 1, "lambda is {}, expected 0..1", lambda);
  PARL_CHECK(lr >= 0 && eps > 0, "lr is {} and eps {}: lr must not be negative, eps must be positive", lr, eps);
  PARL_CHECK(rmsprop_alpha >= 0 && rmsprop_alpha < 1, "rmsprop-alpha is {}, expected 0 <= x < 1", rmsprop_alpha);
  PARL_CHECK(adam_beta1 >= 0 && adam_beta1 < 1 && adam_beta2 >= 0 && adam_beta2 < 1,
             "adam-beta1 and adam-beta2 are {} and {}, expected 0 <= x < 1", adam_beta1, adam_beta2);
  PARL_CHECK(epochs >= 1, "epochs is {}, expected at least 1", epochs);
  PARL_CHECK(minibatches >= 1, "minibatches is {}, expected at least 1", minibatches);
  PARL_CHECK(clip >= 0 && clip < 1, "clip is {}, expected 0 <= x < 1", clip);
  PARL_CHECK(target_kl >= 0, "target-kl is {}, expected 0 or more", target_kl);
  PARL_CHECK(learner_threads >= 1, "learner-threads is {}, expected at least 1", learner_threads);
  PARL_CHECK(shards >= 1, "shards is {}, expected at least 1", shards);
  PARL_CHECK(micro_batch >= 0, "micro-batch is {}, expected 0 or more", micro_batch);
  for (const auto& [name, value] : {std::pair{"value-cost", value_cost}, std::pair{"entropy-cost", entropy_cost},
                                    std::pair{"rho-clip", rho_clip}, std::pair{"c-clip", c_clip},
                                    std::pair{"pg-rho-clip", pg_rho_clip}, std::pair{"max-grad-norm", max_grad_norm}}) {
    PARL_CHECK(value >= 0, "{} is {}, expected 0 or more", name, value);
  }
  if (!lr_schedule.empty()) Schedule{lr_schedule};
  if (!entropy_schedule.empty()) Schedule{entropy_schedule};
}

void ActorCriticConfig::settle(Model& model) {
  if (minibatch_of != MinibatchOf::kAuto) return;
  minibatch_of = model.recurrent() ? MinibatchOf::kUnrolls : MinibatchOf::kSteps;
}

ActorCritic::ActorCritic(std::shared_ptr<Model> model, ActorCriticConfig config, ReplicaFactory replicas,
                         const std::string& device)
    : model_(std::move(model)), config_(std::move(config)), replicas_(std::move(replicas)), device_(device) {
  PARL_CHECK(model_ != nullptr, "an algorithm needs a model");
  config_.check();
  config_.settle(*model_);
  PARL_CHECK(!model_->recurrent() || config_.minibatch_of == MinibatchOf::kUnrolls,
             "a network with a memory learns from whole unrolls: leave --minibatch-of out (auto) or use --minibatch-of "
             "unrolls, with --minibatches at most actors x environments; or use a network without a memory");
  model_->to(at::Device(device_));
  model_->eval();  // acting and learning must see the same network, or ratios are not 1 at lag 0
}

ActorCritic::~ActorCritic() = default;

internal::ActorCriticLearner& ActorCritic::learner() const {
  if (!learner_)
    learner_ = std::make_unique<internal::ActorCriticLearner>(*model_, config_, replicas_, at::Device(device_));
  if (reducer_) learner_->set_reducer(reducer_.get());
  return *learner_;
}

void ActorCritic::set_reducer(std::shared_ptr<GradientReducer> reducer) { reducer_ = std::move(reducer); }

ActOutput ActorCritic::act(const ActInput& in) { return policy_act(*model_, in, at::Device(device_)); }

ActOutput ActorCritic::sample(const at::Tensor& obs, const at::Tensor& uniforms) { return act({obs, uniforms}); }

ActOutput ActorCritic::predict(const at::Tensor& obs) { return act({obs}); }

LearnStats ActorCritic::learn(const Batch& batch, int64_t agent_steps) {
  LearnStats stats = learner().learn(batch, agent_steps);
  model_->observe(batch.obs.narrow(1, 0, batch.length()));
  return stats;
}

Weights ActorCritic::get_state() const { return learner().get_state(); }

void ActorCritic::set_state(const Weights& state) { learner().set_state(state); }

}  // namespace parl
