// What Q-learning algorithms act with: epsilon, which travels with the weights, and actions drawn with it. Plain
// values; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include "parl/agent/algorithm.h"

namespace parl {

// Where uniforms[i] is below epsilon, action[i] becomes any of q's [N, A], each with the same probability. `masked`:
// any that is not forbidden (of value kIllegalLogit: agent/masked_model.h); where all seem to be, any.
void explore(at::Tensor& action, const at::Tensor& uniforms, const at::Tensor& q, double epsilon, bool masked);

// The entry "exploration/epsilon" of an algorithm's weights.
void append_epsilon(Weights& weights, double epsilon);
double epsilon_of(const Weights& weights, double otherwise);

// q [N, A] float32 on the CPU -> the greedy action and its value. Throws NonFiniteError.
ActOutput greedy_of(const at::Tensor& q);

}  // namespace parl
