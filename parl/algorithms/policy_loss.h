// The actor-critic loss over V-trace or GAE targets with its gradient, by hand: no autograd graph above the network's
// heads.
//
//   loss = scale * ( sum policy + value_cost * 0.5 * sum (vs - V)^2 - entropy_cost * sum H )
//   policy = -log pi(a) advantage                                             (IMPALA)
//   policy = -min(ratio A, clamp(ratio, 1 - clip, 1 + clip) A)                (clip > 0: APPO, PPO; A without pg_rho)
// vs and the advantages are constants. Two steps, because advantages may be normalised over more than one piece.
// Of a Gaussian policy (float actions) `logits` are its parameters [N, 2A] (agent/gaussian.h), everywhere here.
// Of actions of several numbers the logits are one number's after the other's; log-probabilities and entropies add up.
// Thread rule: one thread at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "parl/agent/batch.h"
#include "parl/algorithms/vtrace.h"

namespace parl {

struct PolicyLossOptions {
  VtraceOptions vtrace;
  bool gae = false;  // targets by gae(), of vtrace's gamma and lambda; else by vtrace()
  double value_cost = 0.5;
  double entropy_cost = 0.01;
  double clip = 0;
  std::vector<int64_t> choices =
      {};  // of each number of an action, where it has several: their policies are independent
};

// Sums over steps; what the metrics are made of.
struct LossSums {
  double steps = 0, policy = 0, value = 0, entropy = 0, kl = 0;  // value: 0.5 (vs - V)^2
  double ratio = 0, rho_clipped = 0, c_clipped = 0, ratio_clipped = 0, ratio_max_deviation = 0;
  double vs = 0, vs_squared = 0, error = 0, error_squared = 0;  // error = vs - V
  double advantage = 0, advantage_squared = 0;
  LossSums& operator+=(const LossSums& other);
  double total(const PolicyLossOptions& options) const;  // unscaled loss
};

class PolicyLoss {
 public:
  // Targets and loss of whole unrolls. logits [B * (T+1), A] and value [B * (T+1)] of batch.obs, row b * (T+1) + t;
  // final_value [F].
  PolicyLoss(const PolicyLossOptions& options, const Batch& batch, const at::Tensor& logits, const at::Tensor& value,
             const at::Tensor& final_value);

  // Single steps whose targets are known. logits [N, A], value [N], action [N] int64 (or [N, A] float32),
  // behaviour_logits [N, A], vs and advantage [N] float32; all contiguous and on the CPU but logits and value.
  struct Steps {
    at::Tensor action, behaviour_logits, vs, advantage;
  };
  PolicyLoss(const PolicyLossOptions& options, const Steps& steps, const at::Tensor& logits, const at::Tensor& value);

  // The targets, [B * T] in the order of the steps.
  const std::vector<float>& vs() const { return vs_; }
  const std::vector<float>& advantage() const { return advantage_; }

  // Replaces A by (A - mean) * factor.
  void normalize_advantages(double mean, double factor);

  struct Gradients {
    at::Tensor logits, value;  // shaped as the inputs; zero in the rows of obs[T]
  };
  // Also completes sums().policy and sums().ratio_clipped.
  Gradients gradients(double scale);
  const LossSums& sums() const { return sums_; }

 private:
  // Rows of logits and value per unroll: obs[T] of a whole unroll only bootstraps.
  int64_t rows() const { return length_ + bootstrap_; }
  void evaluate_policy(const at::Tensor& logits, const at::Tensor& behaviour_logits);
  // What step i's policies say about its action.
  struct StepPolicy {
    float chosen, behaviour, entropy, kl;  // log-probabilities under the policy now and the one that acted
  };
  StepPolicy categorical_step(int64_t i, const float* behaviour_logits);
  StepPolicy gaussian_step(int64_t i, const float* behaviour) const;
  // d loss / d logits of step i, given weight = - d loss / d log pi(a).
  void categorical_gradient(int64_t i, float weight, float entropy_scale, float* out) const;
  void gaussian_gradient(int64_t i, float weight, float entropy_scale, float* out) const;
  void evaluate_targets(const Batch& batch, const at::Tensor& final_value);
  // d policy / d log pi(a) of step i; counts it in sums_.
  float policy_gradient(int64_t i);
  void add_target_sums();

  PolicyLossOptions options_;
  int64_t unrolls_, length_, bootstrap_, actions_;
  std::vector<int64_t> heads_;  // the logits of each number of an action; they add up to actions_
  at::Tensor value_, action_;   // contiguous, CPU
  bool gaussian_ = false;
  std::vector<float> policy_;  // per step, actions_ each: log-probabilities, or the Gaussian's parameters
  std::vector<float> old_;     // of one step
  std::vector<float> chosen_, ratio_, entropy_, vs_, advantage_;  // per step
  LossSums sums_;
};

}  // namespace parl
