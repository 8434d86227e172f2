#include "parl/agent/tanh_gaussian.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "parl/agent/nonfinite.h"
#include "parl/core/check.h"

namespace parl {
namespace {

// log p(a) by the density of atanh(a) in long double.
double log_density(double mean, double log_std, double action) {
  const long double a = action, u = std::atanh(a), z = (u - mean) / std::exp(static_cast<long double>(log_std));
  return static_cast<double>(-0.5L * z * z - log_std - 0.5L * std::log(2 * std::numbers::pi_v<long double>) -
                             std::log(1 - a * a));
}

TEST(TanhGaussian, DensityAddsUpToOneAndIsTheTrueOne) {
  // One component: z on a grid; the density over actions integrates to 1.
  const int64_t n = 20'000;
  const at::Tensor z = torch::linspace(-8, 8, n).view({n, 1});
  const at::Tensor parameters = torch::tensor({{0.3f, -0.4f}}).expand({n, 2}).contiguous();
  const TanhGaussianDraw draw = draw_tanh_gaussian(parameters, z);
  const at::Tensor a = draw.action.select(1, 0).to(at::kDouble), p = draw.log_prob.to(at::kDouble).exp();
  const at::Tensor width = a.narrow(0, 1, n - 1) - a.narrow(0, 0, n - 1);
  EXPECT_NEAR((width * (p.narrow(0, 1, n - 1) + p.narrow(0, 0, n - 1)) / 2).sum().item<double>(), 1, 1e-4);
  for (const int64_t i : {n / 4, n / 2, 3 * n / 5}) {
    const double u = 0.3 + std::exp(-0.4) * z[i][0].item<double>();
    EXPECT_NEAR(draw.log_prob[i].item<double>(),
                log_density(static_cast<double>(0.3f), static_cast<double>(-0.4f), std::tanh(u)), 2e-5);
  }
}

TEST(TanhGaussian, StaysExactWhereTheTanhIsOne) {
  const at::Tensor parameters = torch::tensor({{20.0f, -1.0f, 0.0f, 0.5f}});
  const TanhGaussianDraw draw = draw_tanh_gaussian(parameters, torch::tensor({{1.0f, -0.5f}}));
  EXPECT_EQ(draw.action[0][0].item<float>(), 1.0f);
  // log(1 - tanh(21)^2) = log 4 - 42 up to 1e-17.
  const double first = -0.5 - 0.5 * std::log(2 * std::numbers::pi) - (std::log(4.0) - 42);
  const double second = log_density(-1, 0.5, std::tanh(-1 - 0.5 * std::exp(0.5)));
  EXPECT_NEAR(draw.log_prob[0].item<double>(), first + second, 1e-4);
}

TEST(TanhGaussian, GradientsAreThoseOfDifferences) {
  torch::manual_seed(5);
  const at::Tensor parameters = torch::randn({3, 4}), z = torch::randn({3, 2}), weight = torch::randn({3, 2});
  parameters[1][2] = 2.5f;    // above the bound of the deviation: no gradient
  parameters[2][3] = -20.5f;  // below
  constexpr double kAlpha = 0.7;
  // In double by torch's own functions, differences of 1e-5.
  const auto loss = [&](const at::Tensor& p) {
    const at::Tensor log_std = p.narrow(1, 2, 2).clamp(-20, 2), u = p.narrow(1, 0, 2) + log_std.exp() * z;
    const at::Tensor log_prob =
        -0.5 * z * z - log_std - 0.5 * std::log(2 * std::numbers::pi) - (1 - u.tanh().pow(2)).log();
    return ((u.tanh() * weight).sum() + kAlpha * log_prob.sum()).item<double>();
  };
  const at::Tensor gradient = tanh_gaussian_gradient(draw_tanh_gaussian(parameters, z), weight, kAlpha);
  const at::Tensor p = parameters.to(at::kDouble);
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t k = 0; k < 4; ++k) {
      const double here = p[i][k].item<double>();
      p[i][k] = here + 1e-5;
      const double up = loss(p);
      p[i][k] = here - 1e-5;
      const double down = loss(p);
      p[i][k] = here;
      EXPECT_NEAR(gradient[i][k].item<double>(), (up - down) / 2e-5, 1e-4) << i << " " << k;
    }
  }
}

TEST(TanhGaussian, DrawsByTheInverseOfTheDistribution) {
  const at::Tensor parameters = torch::tensor({{0.5f, std::log(2.0f)}});
  const auto at_quantile = [&](float u) {
    return sample_tanh_gaussian(parameters, torch::full({1, 1}, u)).item<float>();
  };
  EXPECT_NEAR(at_quantile(0.5f), std::tanh(0.5f), 1e-5);
  EXPECT_NEAR(at_quantile(0.841344746f), std::tanh(2.5f), 1e-5);  // one deviation up
  EXPECT_NEAR(at_quantile(0), std::tanh(0.5f - 2 * 5.42f), 1e-5);
  EXPECT_NEAR(tanh_mean(parameters).item<float>(), std::tanh(0.5f), 1e-6);
  EXPECT_THROW(sample_tanh_gaussian(parameters, torch::zeros({1, 2})), Error);
  EXPECT_THROW(tanh_mean(torch::full({1, 2}, std::numeric_limits<float>::quiet_NaN())), NonFiniteError);
}

}  // namespace
}  // namespace parl
