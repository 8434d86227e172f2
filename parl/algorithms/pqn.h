// Pqn: the parallelised Q-network (Gallici et al. 2024, "Simplifying deep temporal difference learning", arXiv
// 2407.04811): Q-learning from many environments at once, with neither replay nor target network. What holds it
// together is LayerNorm in the network: models mlp_norm, minatar_norm, nature_norm (models/norm.h); any other Model
// runs, too.
//
// Q(s, a) is logit a of the policy head; the value head is not used. Actors act epsilon-greedily; epsilon is a schedule
// over agent steps and travels with the weights ("exploration/epsilon"). A batch is learnt `epochs` times in
// `minibatches` of single steps in random order; loss: mean of 0.5 (Q(s, a) - R)^2 with the Q(lambda) returns R (Daley
// & Amato 2019, arXiv 1810.09967; the paper's section 3.2), computed once per batch from the Q-values that acted. So
// its batches must be on-policy: train it with max_lag 0. Throws NonFiniteError for NaN or inf, before the weights are
// touched by it. Thread rule: one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "parl/agent/algorithm.h"
#include "parl/core/config.h"
#include "parl/core/fields.h"

namespace parl {

// Q(lambda) returns [B, T]: R_t = r_t, if terminated; else r_t + gamma * N_t at a truncation and at the last step, and
// r_t + gamma * (lambda * R_{t+1} + (1 - lambda) * N_t) elsewhere. N_t = max_a Q of the observation after step t (the
// final one of a truncated step). reward, next_value [B, T] float32; terminated, truncated [B, T] bool; terminated
// wins.
at::Tensor q_lambda_returns(const at::Tensor& reward, const at::Tensor& terminated, const at::Tensor& truncated,
                            const at::Tensor& next_value, double gamma, double lambda);

struct PqnConfig {
  double gamma = 0.99;
  double lambda = 0.65;
  double lr = 2.5e-4;
  std::string lr_schedule;
  std::string optimizer = "radam";
  double eps = 1e-8;
  double max_grad_norm = 10;
  int64_t epochs = 2;
  int64_t minibatches = 4;
  int64_t shuffle_seed = 0;
  std::string exploration = "0:1,250000:0.01";
  double eval_epsilon = 0.001;

  // Throws parl::Error naming the field.
  void check() const;
};
PARL_CONFIG(PqnConfig, (gamma, "discount per agent step"),
            (lambda, "decay of the Q(lambda) returns: 0 is the one-step target, 1 the sum of rewards"),
            (lr, "learning rate"),
            (lr_schedule,
             "learning rate over agent steps: '0:1e-4,3e6:0' (linear between) or 'step 0:1e-4,2e6:5e-5'; "
             "empty: lr throughout"),
            (optimizer, "radam or adam"), (eps, "the optimizer's epsilon"),
            (max_grad_norm, "bound of the global gradient norm; 0: none"), (epochs, "passes over each batch"),
            (minibatches, "updates per pass"), (shuffle_seed, "seed of the shuffling into minibatches"),
            (exploration, "epsilon over agent steps, as lr-schedule"),
            (eval_epsilon, "epsilon of evaluations with policy 'sample'"));

class Pqn : public Algorithm {
 public:
  // An object that never learns makes no optimizer. `device`: "cpu", "cuda:0", ...
  explicit Pqn(std::shared_ptr<Model> model, PqnConfig config = {}, const std::string& device = "cpu");
  ~Pqn() override;

  // Epsilon-greedy: uniforms[i] below epsilon draws any action. `logits` of the result are the Q-values.
  ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) override;
  ActOutput predict(const at::Tensor& obs) override;
  // `batch.behaviour_logits` are the Q-values that acted. Statistics: loss, q_mean, td_error (mean absolute),
  // target_mean, grad_norm (before clipping), epsilon, lr, policy_lag_mean.
  LearnStats learn(const Batch& batch, int64_t agent_steps) override;

  Model& model() override { return *model_; }
  Weights get_weights() override;
  void set_weights(const Weights& weights) override;
  void play_for_evaluation(bool on) override { evaluating_ = on; }
  double epsilon() const { return evaluating_ ? config_.eval_epsilon : epsilon_; }
  // "optimizer/...", "pqn/counters" [learn calls].
  Weights get_state() const override;
  void set_state(const Weights& state) override;

 private:
  struct Learner;
  struct Sums {
    double loss = 0, q = 0, error = 0, norm = 0;
  };
  Learner& learner() const;
  at::Tensor returns(const Batch& batch);  // [B, T]
  void update(const at::Tensor& obs, const at::Tensor& action, const at::Tensor& target, double lr, Sums& sums);

  std::shared_ptr<Model> model_;
  PqnConfig config_;
  std::string device_;
  double epsilon_;
  bool evaluating_ = false;
  mutable std::unique_ptr<Learner> learner_;
};

}  // namespace parl
