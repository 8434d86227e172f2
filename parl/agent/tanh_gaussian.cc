#include "parl/agent/tanh_gaussian.h"

#include <torch/torch.h>

#include <cmath>
#include <numbers>

#include "parl/agent/gaussian.h"
#include "parl/core/check.h"

namespace parl {

at::Tensor normal_from_uniform(const at::Tensor& uniforms) {
  // The middle of the 24-bit cell: never 0, never 1.
  const at::Tensor u = uniforms.to(at::kDouble) + std::ldexp(1.0, -25);
  return ((2 * u - 1).erfinv() * std::numbers::sqrt2).to(at::kFloat);
}

TanhGaussianDraw draw_tanh_gaussian(const at::Tensor& parameters, const at::Tensor& z) {
  PARL_CHECK(parameters.dim() == 2 && z.dim() == 2 && parameters.size(1) == 2 * z.size(1),
             "a tanh Gaussian with parameters [N, 2A] needs normal numbers [N, A]");
  const double half_log_2pi = 0.5 * std::log(2 * std::numbers::pi);
  const int64_t n = z.size(1);
  const at::Tensor raw = parameters.narrow(1, n, n), log_std = raw.clamp(kMinLogStd, kMaxLogStd);
  TanhGaussianDraw out;
  out.spread = log_std.exp().mul_(z);
  const at::Tensor u = parameters.narrow(1, 0, n) + out.spread;
  out.action = u.tanh();
  out.inside = raw.eq(log_std).to(at::kFloat);
  // -0.5 z^2 - log_std - 0.5 log 2 pi - 2 (log 2 - u - softplus(-2u))
  at::Tensor terms = at::softplus(u * -2).add_(u).mul_(2);
  terms.sub_(log_std).addcmul_(z, z, -0.5).sub_(half_log_2pi + 2 * std::numbers::ln2);
  out.log_prob = terms.sum(1);
  return out;
}

at::Tensor tanh_gaussian_gradient(const TanhGaussianDraw& draw, const at::Tensor& action_gradient,
                                  double log_prob_gradient) {
  const int64_t n = draw.action.size(1);
  at::Tensor out = torch::empty({draw.action.size(0), 2 * n}, draw.action.options());
  // d action / d u = 1 - action^2; d log_prob / d u = 2 action.
  const at::Tensor d_u = at::addcmul(action_gradient, action_gradient * draw.action, draw.action, -1);
  d_u.add_(draw.action, 2 * log_prob_gradient);
  out.narrow(1, 0, n).copy_(d_u);
  out.narrow(1, n, n).copy_((d_u * draw.spread).sub_(log_prob_gradient).mul_(draw.inside));
  return out;
}

at::Tensor sample_tanh_gaussian(const at::Tensor& parameters, const at::Tensor& uniforms) {
  const at::Tensor mean = gaussian_mean(parameters);
  PARL_CHECK(uniforms.sizes() == mean.sizes(), "a tanh Gaussian with {} components needs as many uniform numbers a row",
             mean.size(1));
  return draw_tanh_gaussian(parameters, normal_from_uniform(uniforms)).action;
}

at::Tensor tanh_mean(const at::Tensor& parameters) { return gaussian_mean(parameters).tanh_(); }

}  // namespace parl
