// The diagonal Gaussian policy over continuous actions.
//
// Where a categorical policy has logits, it has parameters [N, 2A]: the means, then the logarithms of the deviations.
// An action [A] is the policy's own: unclipped, in units where a bounded component spans -1..1; map_action() makes the
// environment's from it. So the stored action is the one that was drawn, and its log-probability is exact.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <numbers>

#include "parl/agent/spec.h"

namespace parl {

// log p(action) of one row; n: components.
inline float gaussian_log_prob(const float* parameters, const float* action, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float log_std = parameters[n + i], z = (action[i] - parameters[i]) * std::exp(-log_std);
    sum -= 0.5f * z * z + log_std + 0.5f * std::log(2 * std::numbers::pi_v<float>);
  }
  return sum;
}

inline float gaussian_entropy(const float* parameters, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += parameters[n + i] + 0.5f * std::log(2 * std::numbers::pi_v<float> * std::numbers::e_v<float>);
  return sum;
}

// KL(from, to) of one row.
inline float gaussian_kl(const float* from, const float* to, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float ratio = std::exp(from[n + i] - to[n + i]), z = (from[i] - to[i]) * std::exp(-to[n + i]);
    sum += to[n + i] - from[n + i] + 0.5f * (ratio * ratio + z * z - 1);
  }
  return sum;
}

// parameters [N, 2A] float32, uniforms [N, A] float32 in [0, 1) -> [N, A] float32, by the inverse of the distribution
// function. Throws NonFiniteError when a parameter is NaN or infinite.
at::Tensor sample_gaussian(const at::Tensor& parameters, const at::Tensor& uniforms);
at::Tensor gaussian_mean(const at::Tensor& parameters);  // [N, A]

// The environment's action for a policy's own: a component with two finite bounds is clipped to -1..1 and mapped onto
// low..high; one without is clipped to the bounds that it has. Both of spec.action_size floats; in place is allowed.
void map_action(const ModelSpec& spec, const float* action, float* out);

}  // namespace parl
