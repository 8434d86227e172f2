// The tanh Gaussian policy over bounded continuous actions (Haarnoja et al. 2018, arXiv 1812.05905, appendix C).
//
// Parameters [N, 2A] as those of the Gaussian (agent/gaussian.h): means, then logarithms of the deviations, which are
// bounded to kMinLogStd..kMaxLogStd here. u = mean + deviation * z with z normal; the action tanh(u) is the policy's
// own, in [-1, 1]; map_action() makes the environment's. log p(action) = log N(u) - sum log(1 - tanh(u)^2), the last
// as 2 (log 2 - u - softplus(-2u)), which stays exact where tanh is 1 in float32. Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

namespace parl {

inline constexpr double kMinLogStd = -20, kMaxLogStd = 2;  // the authors' code

// Normal numbers from uniform ones in [0, 1) by the inverse of the distribution function; float32, any shape. Finite.
at::Tensor normal_from_uniform(const at::Tensor& uniforms);

// A reparametrised draw: action and log-probability as functions of the parameters, for z [N, A] normal.
struct TanhGaussianDraw {
  at::Tensor action;    // [N, A]
  at::Tensor log_prob;  // [N]
  at::Tensor spread;    // [N, A]: deviation * z, for the gradient
  at::Tensor inside;    // [N, A] float: 1 where the log deviation is within its bounds, else 0
};
TanhGaussianDraw draw_tanh_gaussian(const at::Tensor& parameters, const at::Tensor& z);
// d loss / d parameters [N, 2A], given d loss / d action [N, A] and d loss / d log_prob, the same number for all rows.
at::Tensor tanh_gaussian_gradient(const TanhGaussianDraw& draw, const at::Tensor& action_gradient,
                                  double log_prob_gradient);

// [N, A]. Throw NonFiniteError when a parameter is NaN or infinite, parl::Error for wrong shapes.
at::Tensor sample_tanh_gaussian(const at::Tensor& parameters, const at::Tensor& uniforms);
at::Tensor tanh_mean(const at::Tensor& parameters);  // tanh(mean): the greedy action

}  // namespace parl
