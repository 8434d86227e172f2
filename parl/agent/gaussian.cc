#include "parl/agent/gaussian.h"

#include <torch/torch.h>

#include <algorithm>

#include "parl/agent/nonfinite.h"
#include "parl/core/check.h"

namespace parl {

at::Tensor gaussian_mean(const at::Tensor& parameters) {
  PARL_CHECK(parameters.dim() == 2 && parameters.size(1) % 2 == 0, "a Gaussian policy has parameters [N, 2A]");
  if (!at::isfinite(parameters).all().item<bool>()) {
    throw NonFiniteError("policy", "the policy's means or deviations contain NaN or inf; the weights have diverged");
  }
  return parameters.narrow(1, 0, parameters.size(1) / 2).contiguous();
}

at::Tensor sample_gaussian(const at::Tensor& parameters, const at::Tensor& uniforms) {
  const at::Tensor mean = gaussian_mean(parameters);
  PARL_CHECK(uniforms.sizes() == mean.sizes(),
             "a Gaussian policy with {} components needs as many uniform numbers a row", mean.size(1));
  const at::Tensor std = parameters.narrow(1, mean.size(1), mean.size(1)).exp();
  // The middle of the 24-bit cell: never 0, never 1.
  const at::Tensor u = uniforms.to(at::kDouble) + std::ldexp(1.0, -25);
  const at::Tensor normal = (2 * u - 1).erfinv() * std::numbers::sqrt2;
  return mean + std * normal.to(at::kFloat);
}

void map_action(const ModelSpec& spec, const float* action, float* out) {
  for (size_t i = 0; i < static_cast<size_t>(spec.action_size); ++i) {
    const double low = spec.action_low[i], high = spec.action_high[i];
    double a = action[i];
    if (std::isfinite(low) && std::isfinite(high)) a = low + (std::clamp(a, -1.0, 1.0) + 1) / 2 * (high - low);
    out[i] = std::clamp(static_cast<float>(a), static_cast<float>(low), static_cast<float>(high));
  }
}

}  // namespace parl
