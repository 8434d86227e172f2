// The losses of Q-learning on one minibatch, with their gradients. Tensors on the CPU in, tensors and numbers out; pure
// functions, any thread. Every loss is a mean over the minibatch of weight * loss of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include "parl/agent/atoms.h"
#include "parl/agent/model.h"

namespace parl {

struct QLoss {
  double loss = 0;
  at::Tensor d_logits, d_value;                      // d loss / d the network's outputs
  at::Tensor priority;                               // [N]: how wrong each step was
  double q_mean = 0, target_mean = 0, td_error = 0;  // of the actions taken; td_error: mean |Q - target|
};

// Q(s, a) = logit a; with dueling V + logit a - mean logit (Wang et al. 2016). -> [N, A]. `masked`: logits of
// kIllegalLogit are of forbidden actions (agent/masked_model.h); they keep it, and no mean counts them.
at::Tensor plain_q_values(const PolicyValue& output, bool dueling, bool masked = false);

// Huber loss with bound 1 of Q(s, action) - y (Mnih et al. 2015); y, weight [N]. priority: |Q - y|.
QLoss huber_loss(const PolicyValue& output, bool dueling, const at::Tensor& action, const at::Tensor& y,
                 const at::Tensor& weight, bool masked = false);

// Cross-entropy of Z(s, action) to the distribution m [N, atoms] (Bellemare et al. 2017). priority: the
// Kullback-Leibler divergence of the two, as Hessel et al. 2018 have it.
QLoss atoms_loss(const Atoms& atoms, const PolicyValue& output, const at::Tensor& action, const at::Tensor& m,
                 const at::Tensor& weight);

}  // namespace parl
