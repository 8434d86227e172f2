// The actor-critic loss over V-trace targets with its gradient, by hand: no autograd graph above the network's heads.
//
//   loss = scale * ( sum policy + value_cost * 0.5 * sum (vs - V)^2 - entropy_cost * sum H )
//   policy = -log pi(a) advantage                                             (IMPALA)
//   policy = -min(ratio A, clamp(ratio, 1 - clip, 1 + clip) A)                (clip > 0: APPO; A without pg_rho)
// vs and the advantages are constants. Two steps, because advantages may be normalised over more than one piece.
// Thread rule: one thread at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "parl/agent/batch.h"
#include "parl/algorithms/vtrace.h"

namespace parl {

struct PolicyLossOptions {
  VtraceOptions vtrace;
  double value_cost = 0.5;
  double entropy_cost = 0.01;
  double clip = 0;
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
  // logits [B * (T+1), A] and value [B * (T+1)] of batch.obs, row b * (T+1) + t; final_value [F].
  PolicyLoss(const PolicyLossOptions& options, const Batch& batch, const at::Tensor& logits, const at::Tensor& value,
             const at::Tensor& final_value);

  // Replaces A by (A - mean) * factor.
  void normalize_advantages(double mean, double factor);

  struct Gradients {
    at::Tensor logits, value;  // shaped as the inputs; zero in the rows of obs[T]
  };
  // Also completes sums().policy and sums().ratio_clipped.
  Gradients gradients(double scale);
  const LossSums& sums() const { return sums_; }

 private:
  void evaluate_policy(const Batch& batch);
  void evaluate_targets(const Batch& batch, const at::Tensor& final_value);
  // d policy / d log pi(a) of step i; counts it in sums_.
  float policy_gradient(int64_t i);

  PolicyLossOptions options_;
  int64_t unrolls_, length_, actions_;
  at::Tensor value_, action_;                                                 // contiguous, CPU
  std::vector<float> log_probs_, chosen_, ratio_, entropy_, vs_, advantage_;  // per step; log_probs_ times A
  LossSums sums_;
};

}  // namespace parl
