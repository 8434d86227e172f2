#include "parl/agent/gaussian.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <numbers>
#include <vector>

#include "parl/agent/nonfinite.h"
#include "parl/core/check.h"

namespace parl {
namespace {

TEST(Gaussian, DrawsByTheInverseOfTheDistribution) {
  // Quantiles of the standard normal, from tables.
  const float us[] = {0.5f, 0.841344746f, 0.022750132f, 0.975f};
  const float expected[] = {0, 1, -2, 1.959964f};
  for (int i = 0; i < 4; ++i) {
    const at::Tensor parameters = torch::tensor({{1.0f, -3.0f, std::log(2.0f), std::log(0.5f)}});
    const at::Tensor a = sample_gaussian(parameters, torch::full({1, 2}, us[i]));
    EXPECT_NEAR(a[0][0].item<float>(), 1 + 2 * expected[i], 2e-4) << us[i];
    EXPECT_NEAR(a[0][1].item<float>(), -3 + 0.5f * expected[i], 1e-4) << us[i];
  }
  const at::Tensor zero = torch::zeros({2, 2});
  const at::Tensor ends = sample_gaussian(zero, torch::tensor({{0.0f}, {1 - std::ldexp(1.0f, -24)}}));
  EXPECT_NEAR(ends[0].item<float>(), -5.42f, 0.02f);  // finite at both ends of the uniform numbers
  EXPECT_NEAR(ends[1].item<float>(), 5.42f, 0.02f);
  EXPECT_THROW(sample_gaussian(zero, torch::zeros({2})), Error);
  EXPECT_THROW(sample_gaussian(torch::full({1, 2}, NAN), torch::zeros({1, 1})), NonFiniteError);
}

TEST(Gaussian, DensityEntropyAndDivergence) {
  const float p[] = {0.3f, -1, 0.2f, -0.7f}, q[] = {-0.5f, 0.4f, -0.1f, 0.3f}, a[] = {1.1f, -0.8f};
  // Integrals on a grid, one component at a time: independent components add up.
  double log_p = 0, entropy = 0, kl = 0;
  for (int k = 0; k < 2; ++k) {
    const auto density = [k](const float* x, double at) {
      const double std = std::exp(x[2 + k]), z = (at - x[k]) / std;
      return std::exp(-0.5 * z * z) / (std * std::sqrt(2 * std::numbers::pi));
    };
    log_p += std::log(density(p, a[k]));
    constexpr double kStep = 1e-3;
    for (double x = -20; x < 20; x += kStep) {
      const double f = density(p, x), g = density(q, x);
      if (f < 1e-300 || g < 1e-300) continue;
      entropy -= kStep * f * std::log(f);
      kl += kStep * f * std::log(f / g);
    }
  }
  EXPECT_NEAR(gaussian_log_prob(p, a, 2), log_p, 1e-5);
  EXPECT_NEAR(gaussian_entropy(p, 2), entropy, 1e-4);
  EXPECT_NEAR(gaussian_kl(p, q, 2), kl, 1e-4);
  EXPECT_NEAR(gaussian_kl(p, p, 2), 0, 1e-6);
}

TEST(Gaussian, ActionsBecomeTheEnvironments) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  ModelSpec spec;
  spec.action_size = 4;
  spec.action_low = {-2, 0, -kInf, 5};
  spec.action_high = {2, 10, kInf, kInf};
  const float own[] = {0.5f, -3, 7, 1};
  float out[4];
  map_action(spec, own, out);
  EXPECT_EQ(out[0], 1);  // -1..1 onto -2..2
  EXPECT_EQ(out[1], 0);  // clipped
  EXPECT_EQ(out[2], 7);  // unbounded
  EXPECT_EQ(out[3], 5);  // bounded on one side
}

}  // namespace
}  // namespace parl
