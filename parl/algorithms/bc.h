// Bc: behaviour cloning. The policy that makes recorded actions likeliest: supervised learning of action from
// observation (Pomerleau 1989, ALVINN; also the first stage of many learners from demonstrations).
//
// Any Model serves unchanged, discrete or Gaussian; its value head is left alone. learn() makes one Adam update from
// each of `minibatches` parts of the batch; loss = - mean over steps of log pi(action | obs) - entropy_cost * mean
// entropy. Rewards, ends and behaviour logits play no part. Batches come from recorded episodes
// (parl/data/recording.h). Throws NonFiniteError for NaN or inf, before the weights are touched by it. Thread rule: one
// thread at a time.
#pragma once

#include <memory>
#include <string>

#include "parl/agent/algorithm.h"
#include "parl/core/config.h"
#include "parl/core/fields.h"

namespace parl {

struct BcConfig {
  double lr = 1e-3;
  std::string lr_schedule;
  double eps = 1e-8;
  double max_grad_norm = 0;
  double entropy_cost = 0;
  int64_t minibatches = 1;

  // Throws parl::Error naming the field.
  void check() const;
};
PARL_CONFIG(BcConfig, (lr, "Adam's learning rate"),
            (lr_schedule,
             "learning rate over steps learnt: '0:1e-3,1e6:0' (linear between) or 'step 0:1e-3,1e6:1e-4'; empty: "
             "lr throughout"),
            (eps, "Adam's epsilon"), (max_grad_norm, "bound of the global gradient norm; 0: none"),
            (entropy_cost, "weight of the policy's entropy, which keeps it from growing too sure"),
            (minibatches, "updates made of one batch, each of its share of the unrolls"));

class Bc : public Algorithm {
 public:
  // `learns` false: an object that acts only.
  explicit Bc(std::shared_ptr<Model> model, BcConfig config = {}, bool learns = true,
              const std::string& device = "cpu");
  ~Bc() override;

  ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) override;
  ActOutput predict(const at::Tensor& obs) override;
  // Statistics, means over the batch: loss, log_prob (of the recorded actions), accuracy (share of steps whose greedy
  // action is the recorded one; of a Gaussian: mean absolute distance from its mean, named "distance"), entropy,
  // grad_norm (before clipping), lr.
  LearnStats learn(const Batch& batch, int64_t agent_steps) override;
  Model& model() override { return *model_; }
  Weights get_state() const override;
  void set_state(const Weights& state) override;

 private:
  struct Learner;
  struct Sums;
  Learner& learner() const;
  void update(const Batch& part, double lr, Sums& sums);

  std::shared_ptr<Model> model_;
  BcConfig config_;
  std::string device_;
  std::unique_ptr<Learner> learner_;
};

}  // namespace parl
