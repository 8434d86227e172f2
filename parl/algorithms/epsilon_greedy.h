// What Q-learning algorithms act with: epsilon, which travels with the weights, and actions drawn with it. Plain
// values; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include "parl/agent/algorithm.h"

namespace parl {

// Where uniforms[i] is below epsilon, action[i] becomes any that is not forbidden (of value kIllegalLogit in q [N, A]:
// agent/masked_model.h), each with the same probability. Throws NonFiniteError where all are: no mask forbids all, so
// the weights have diverged.
void explore(at::Tensor& action, const at::Tensor& uniforms, const at::Tensor& q, double epsilon);

// The entry "exploration/epsilon" of an algorithm's weights.
void append_epsilon(Weights& weights, double epsilon);
double epsilon_of(const Weights& weights, double otherwise);

// q [N, A] float32 on the CPU -> the greedy action and its value. Throws NonFiniteError.
ActOutput greedy_of(const at::Tensor& q);

}  // namespace parl
