// Dqn: Q-learning with a target network and replay (Mnih et al. 2015, doi 10.1038/nature14236), and the parts of
// Rainbow (Hessel et al. 2018, arXiv 1710.02298) as options that combine: double (van Hasselt et al. 2016, arXiv
// 1509.06461), dueling (Wang et al. 2016, arXiv 1511.06581), n-step returns, prioritised replay (Schaul et al. 2016),
// distributions of returns (agent/atoms.h) and noisy layers (noisy.h).
//
// Any Model with a Discrete policy serves unchanged: Q(s, a) is its logit a; with `dueling` Q = V + logit a - mean
// logit. With `distributional` the model is made for more outputs, network_spec(): the atoms of every action, and with
// dueling those of the value. With `noisy` the layers that noisy_layers names are, by default the last one.
// Actors act epsilon-greedily; epsilon is a schedule over agent steps and travels with the weights (the entry
// "exploration/epsilon"), as the noise's sizes do ("exploration/sigma..."). The noise of acting is new in every
// sample(), one for all observations, and drawn from a stream of their uniform numbers; those of learning from streams
// of (replay_seed, update, use): the network that learns, the target network and, for double, the choice of the next
// action have one each (Fortunato et al. 2018, section 3.2). Evaluation and predict() have none. learn() puts the batch
// into the replay buffer (replay.h), whatever policy acted in it, and then makes train_ratio * steps / batch_size
// updates: so the samples learnt per step collected do not depend on how fast actors are. Loss: Huber with bound 1 of Q
// - y, y = n-step reward + discount * Q_target(next), or the cross-entropy to the projected distribution; discount 0
// after a termination; the next observation of a truncated step is its final one. Throws NonFiniteError for NaN or inf,
// before the weights are touched by it. Thread rule: one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parl/agent/algorithm.h"
#include "parl/agent/atoms.h"
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

  bool distributional = false;
  int64_t atoms = 51;
  double v_min = -10, v_max = 10;
  bool noisy = false;
  double noisy_sigma = 0.5;
  std::string noisy_layers;

  // Throws parl::Error naming the field.
  void check() const;
  Atoms atoms_of() const { return {atoms, v_min, v_max, dueling}; }
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
            (replay_capacity, "steps kept"),
            (replay_seed, "seed of the sampling from replay and of the noise in learning"),
            (distributional, "learn the distribution of returns (C51), not its mean alone"),
            (atoms, "distributional: values that a return may have"), (v_min, "distributional: the smallest of them"),
            (v_max, "distributional: the largest of them"),
            (noisy, "layers with noisy weights explore (set exploration to 0)"),
            (noisy_sigma, "noisy: size of the noise at the start, over the root of a layer's inputs"),
            (noisy_layers,
             "noisy: names of the layers, separated by commas; empty: policy, with dueling also value (with "
             "distributional, policy has the value's atoms)"));

// Which pass a noise is for.
enum class NoiseUse : uint8_t { kOnline, kTarget, kChoice };
// Fills `normal` with standard normal numbers for the given update.
using NoiseSource = std::function<void(NoiseUse, int64_t update, std::span<float> normal)>;

class Dqn : public Algorithm, public ReplayOwner {
 public:
  // A null target makes an object that acts only. `device`: "cpu", "cuda:0", ...
  explicit Dqn(std::shared_ptr<Model> model, DqnConfig config = {}, std::shared_ptr<Model> target = nullptr,
               const std::string& device = "cpu");
  ~Dqn() override;

  // What the models must be made for, where the environment wants `spec`.
  static ModelSpec network_spec(ModelSpec spec, const DqnConfig& config);

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
  // All but the replay buffer: "optimizer/...", "target/...", "dqn/counters" [learn calls, updates, steps that must lie
  // in the buffer], "dqn/owed" [samples]. set_state also takes what earlier versions wrote, with "replay/...".
  Weights get_state() const override;
  void set_state(const Weights& state) override;
  ReplayBuffer& replay() override;
  void replay_lost() override;

  // Another source of learning's noise than the seeded streams.
  void set_noise_source(NoiseSource source) { noise_source_ = std::move(source); }

 private:
  struct Learner;
  std::shared_ptr<Model> with_noise(std::shared_ptr<Model> network) const;
  at::Tensor q_values(const PolicyValue& output) const;  // [N, A]
  ActOutput act(const at::Tensor& obs);
  Learner& learner() const;
  void pay(double steps);
  void update(double lr, double beta);
  at::Tensor targets(const ReplaySample& sample);  // y [N], or the distributions [N, atoms]; on the CPU
  void draw_noise(Model& network, NoiseUse use);
  void draw_acting_noise(const at::Tensor& uniforms);

  DqnConfig config_;
  std::string device_;
  std::shared_ptr<Model> model_, target_;
  bool masked_ = false;  // the model gives what a mask forbids a logit of its own
  double epsilon_;
  bool evaluating_ = false;
  NoiseSource noise_source_;
  std::vector<float> noise_;
  mutable std::unique_ptr<Learner> learner_;
};

}  // namespace parl
