// OffPolicy: what DDPG, TD3 and SAC share: a policy network, one or two critics, target networks, replay.
//
// Any Model with a Gaussian policy serves as the policy's network, any QModel (agent/q_model.h) as the critic. Actions
// are the policy's own, in [-1, 1]: they are what replay stores and critics see, and noise has these units;
// map_action() makes the environment's. Until learn_start steps are collected, actors draw uniform actions, for every
// step or, with hold_random, one that the learner draws for every version; that they do travels with the weights (the
// entries "exploration/random", "exploration/held"), which are the policy's alone: critics stay with the learner.
//
// learn() puts the batch into the replay buffer (replay.h), whatever policy acted in it, and then makes
// train_ratio * steps / batch_size updates: with train_ratio = batch_size one update per step collected. Steps before
// learn_start are owed none. One update: y = n-step reward + discount * (value of the next observation under the target
// networks), discount 0 after a termination, the next observation of a truncated step its final one; every critic
// descends mean (Q - y)^2; then, if it is its turn, the policy's update, after which target networks move by
// tau towards their originals. Adam for all (eps 1e-8). The next samples are drawn by a thread of their own
// (sample_ahead.h). Throws NonFiniteError for NaN or inf, before the weights are touched by it.
// Thread rule: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parl/agent/algorithm.h"
#include "parl/agent/q_model.h"
#include "parl/algorithms/replay.h"
#include "parl/core/config.h"
#include "parl/core/fields.h"

namespace parl {

struct OffPolicyConfig {
  double gamma = 0.99;
  double lr = 3e-4;
  double critic_lr = 0;
  int64_t batch_size = 256;
  double train_ratio = 256;
  double tau = 0.005;
  int64_t n_step = 1;
  int64_t learn_start = 5'000;
  bool hold_random = false;
  int64_t replay_capacity = 1'000'000;
  int64_t replay_seed = 0;
  std::string critic = "auto";

  // Throws parl::Error naming the field.
  void check() const;
};
#define PARL_OFF_POLICY_FIELDS                                                                                        \
  (gamma, "discount per agent step"), (lr, "Adam's learning rate, the policy's"),                                     \
      (critic_lr, "the critics' learning rate; 0: lr"), (batch_size, "transitions per update"),                       \
      (train_ratio, "transitions learnt per agent step collected; batch-size of them are one update"),                \
      (tau, "how far target networks move towards their originals at a time"),                                        \
      (n_step, "rewards before bootstrapping"),                                                                       \
      (learn_start, "agent steps of random actions that are collected before learning begins"),                       \
      (hold_random, "hold one random action for a whole unroll, in all environments: for tasks of momentum"),         \
      (replay_capacity, "steps kept"), (replay_seed, "seed of the sampling from replay and of the update's noise"),   \
      (critic,                                                                                                        \
       "critic network (mlp256, mlp64, dict, ...); auto: the one of the policy network's name, else mlp256, or dict " \
       "for "                                                                                                         \
       "observations of parts")

// What only a learner has. Without critics: an object that acts only.
struct OffPolicyNetworks {
  std::shared_ptr<Model> target_policy;  // null where the algorithm has none
  std::vector<std::shared_ptr<QModel>> critics, target_critics;
};

class OffPolicy : public Algorithm, public ReplayOwner {
 public:
  ~OffPolicy() override;

  // `logits` of the results: the network's output [N, 2A]; `value`: the network's, which nothing here trains.
  ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) override;
  ActOutput predict(const at::Tensor& obs) override;  // tanh of the mean
  // Statistics: loss (sum over the critics), q_mean, target_mean, grad_norm (of the critics), actor_loss and what the
  // algorithm adds; updates, replay_size, policy_lag_mean; all but the last three only when there was an update.
  LearnStats learn(const Batch& batch, int64_t agent_steps) override;
  // One update from these transitions and normal numbers [noise_draws(), N, A]; its statistics. learn() draws both.
  LearnStats update(const ReplaySample& sample, const at::Tensor& noise);
  virtual int64_t noise_draws() const = 0;

  Model& model() override { return *policy_; }
  QModel& critic(size_t i) { return *networks_.critics.at(i); }
  Weights get_weights() override;
  void set_weights(const Weights& weights) override;
  void play_for_evaluation(bool on) override { evaluating_ = on; }
  bool acts_randomly() const { return random_ && !evaluating_; }
  ReplayBuffer& replay() override;
  void replay_lost() override;
  // "policy/optimizer/...", "critic0/...", "target_critic0/...", "target_policy/...", "off_policy/..." and what the
  // algorithm adds.
  Weights get_state() const override;
  void set_state(const Weights& state) override;

 protected:
  OffPolicy(std::shared_ptr<Model> policy, OffPolicyNetworks networks, const OffPolicyConfig& config,
            const std::string& device);

  // Actions of the present policy in training, given the network's output [N, 2A] and uniform numbers [N, A].
  virtual at::Tensor explore(const at::Tensor& parameters, const at::Tensor& uniforms) const = 0;
  // The value of the sample's next observations [N], under the target networks.
  virtual at::Tensor next_value(const at::Tensor& next_obs, const at::Tensor& noise) = 0;
  // One step of the policy (step_policy()), and statistics of it.
  virtual void update_policy(const at::Tensor& obs, const at::Tensor& noise, LearnStats& stats) = 0;
  virtual int64_t policy_delay() const { return 1; }  // updates per one of the policy and the targets
  virtual void append_own_state(Weights& /*state*/) const {}
  virtual void set_own_state(const Weights& /*state*/) {}

  bool evaluating() const { return evaluating_; }
  const OffPolicyNetworks& networks() const { return networks_; }
  // The lowest of the target critics' values [N].
  at::Tensor target_q(const at::Tensor& obs, const at::Tensor& action) const;
  // Takes the gradient through `recording`, checks it, steps. d_parameters: d loss / d network output [N, 2A].
  void step_policy(Recording& recording, const at::Tensor& d_parameters, double loss);

 private:
  struct Learner;
  Learner& learner() const;
  PolicyValue network_output(const at::Tensor& obs) const;
  struct Means;
  int64_t pay(Means& means);
  void update_critics(const ReplaySample& sample, const at::Tensor& y, LearnStats& stats);
  void move_targets();
  void draw_held(int64_t size);

  std::shared_ptr<Model> policy_;
  OffPolicyNetworks networks_;
  OffPolicyConfig config_;
  std::string device_;
  bool random_, evaluating_ = false;
  at::Tensor held_;  // [A]: the random action of this version; undefined: one for every step
  mutable std::unique_ptr<Learner> learner_;
};

// Fresh networks for a learner: `critics` critics with their targets, and the policy's target where wanted.
OffPolicyNetworks make_off_policy_networks(const ModelFactory& policy, const QModelFactory& critic,
                                           const ModelSpec& spec, int critics, bool target_policy);

}  // namespace parl
