// Dqn: Q-learning with a target network and replay (Mnih et al. 2015, doi 10.1038/nature14236), and the parts of
// Rainbow (Hessel et al. 2018, arXiv 1710.02298) as options that combine: double (van Hasselt et al. 2016, arXiv
// 1509.06461), dueling (Wang et al. 2016, arXiv 1511.06581), n-step returns, prioritised replay (Schaul et al. 2016).
//
// Any Model with a Discrete policy serves unchanged: Q(s, a) is its logit a; with `dueling` Q = V + logit a - mean
// logit. Actors act epsilon-greedily; epsilon is a schedule over agent steps and travels with the weights (the entry
// "exploration/epsilon"). learn() puts the batch into the replay buffer (replay.h), whatever policy acted in it, and
// then makes train_ratio * steps / batch_size updates: so the samples learnt per step collected do not depend on how
// fast actors are. Loss: Huber with bound 1 of Q - y, y = n-step reward + discount * Q_target(next), discount 0 after a
// termination; the next observation of a truncated step is its final one. Throws NonFiniteError for NaN or inf, before
// the weights are touched by it. Thread rule: one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "parl/agent/algorithm.h"
#include "parl/agent/optimizer.h"
#include "parl/agent/schedule.h"
#include "parl/algorithms/replay.h"
#include "parl/core/config.h"
#include "parl/core/fields.h"

namespace parl {

struct DqnConfig {
  double gamma = 0.99;
  double lr = 1e-4;
  std::string lr_schedule;
  double eps = 1.5e-4;
  double max_grad_norm = 10;
  int64_t batch_size = 32;
  double train_ratio = 8;
  int64_t target_updates = 2'000;
  std::string exploration = "0:1,250000:0.01";
  double eval_epsilon = 0.001;
  int64_t learn_start = 20'000;

  bool double_q = true;
  bool dueling = false;
  int64_t n_step = 1;
  bool prioritized = false;
  double priority_alpha = 0.6;
  std::string priority_beta = "0:0.4,1e6:1";
  int64_t replay_capacity = 200'000;
  int64_t replay_seed = 0;

  // Throws parl::Error naming the field.
  void check() const;
};
PARL_CONFIG(DqnConfig, (gamma, "discount per agent step"), (lr, "Adam's learning rate"),
            (lr_schedule,
             "learning rate over agent steps: '0:1e-4,3e6:0' (linear between) or 'step 0:1e-4,2e6:5e-5'; "
             "empty: lr throughout"),
            (eps, "Adam's epsilon"), (max_grad_norm, "bound of the global gradient norm; 0: none"),
            (batch_size, "transitions per update"), (train_ratio, "transitions learnt per agent step collected"),
            (target_updates, "updates between copies of the network to the target network"),
            (exploration, "epsilon over agent steps, as lr-schedule"),
            (eval_epsilon, "epsilon of evaluations with policy 'sample'"),
            (learn_start, "agent steps that are collected before learning begins"),
            (double_q, "the online network chooses the next action, the target network values it"),
            (dueling, "Q = V + advantage - mean advantage"), (n_step, "rewards before bootstrapping"),
            (prioritized, "sample by the size of the last error"), (priority_alpha, "0: uniform, 1: in proportion"),
            (priority_beta, "correction for it over agent steps, as lr-schedule; 1: full"),
            (replay_capacity, "steps kept"), (replay_seed, "seed of the sampling from replay"));

class Dqn : public Algorithm {
 public:
  // A null target makes an object that acts only. `device`: "cpu", "cuda:0", ...
  explicit Dqn(std::shared_ptr<Model> model, DqnConfig config = {}, std::shared_ptr<Model> target = nullptr,
               const std::string& device = "cpu");
  ~Dqn() override;

  // Epsilon-greedy: uniforms[i] below epsilon draws any action. `logits` of the result are the Q-values.
  ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) override;
  ActOutput predict(const at::Tensor& obs) override;
  // Statistics: loss, q_mean, td_error (mean absolute), target_mean, grad_norm (before clipping), updates, replay_size,
  // epsilon, lr; the first five are there only when there was an update.
  LearnStats learn(const Batch& batch, int64_t agent_steps) override;

  Model& model() override { return *model_; }
  Weights get_weights() override;
  void set_weights(const Weights& weights) override;
  void play_for_evaluation(bool on) override { evaluating_ = on; }
  double epsilon() const { return evaluating_ ? config_.eval_epsilon : epsilon_; }
  // "optimizer/...", "target/...", "replay/...", "dqn/counters" [learn calls, updates], "dqn/owed" [samples].
  Weights get_state() const override;
  void set_state(const Weights& state) override;

 private:
  struct Learner;
  at::Tensor q_values(const PolicyValue& output) const;  // [N, A]
  ActOutput act(const at::Tensor& obs) const;
  Learner& learner() const;
  void update(double lr, double beta);
  at::Tensor targets(const ReplaySample& sample) const;  // y [N], on the CPU

  std::shared_ptr<Model> model_, target_;
  DqnConfig config_;
  std::string device_;
  bool masked_ = false;  // the model gives what a mask forbids a logit of its own
  double epsilon_;
  bool evaluating_ = false;
  mutable std::unique_ptr<Learner> learner_;
};

}  // namespace parl
