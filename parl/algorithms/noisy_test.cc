#include "parl/algorithms/noisy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "parl/agent/tensor_array.h"
#include "parl/core/error_of.h"
#include "parl/models/cnn.h"
#include "parl/models/mlp.h"

namespace parl {
namespace {

using ::testing::HasSubstr;

const ModelSpec kSpec{{4}, DType::kF32, 3, 0};

std::vector<float> some_noise(int64_t size, uint64_t seed = 1) {
  std::vector<float> out(static_cast<size_t>(size));
  CounterRng rng(seed, 0);
  fill_normal(rng, out);
  return out;
}

TEST(Noisy, NormalNumbers) {
  const std::vector<float> x = some_noise(100'001);
  double mean = 0, square = 0, fourth = 0;
  for (const float v : x) mean += v, square += v * v, fourth += std::pow(v, 4);
  const double n = static_cast<double>(x.size());
  EXPECT_NEAR(mean / n, 0, 0.01);
  EXPECT_NEAR(square / n, 1, 0.02);
  EXPECT_NEAR(fourth / n, 3, 0.1);
}

// The paper's equations by hand: one output of two inputs.
TEST(Noisy, WeightsAndGradientsByHand) {
  auto net = std::make_shared<Mlp>(ModelSpec{{2}, DType::kF32, 1, 0}, std::vector<int64_t>{});
  const auto parameters = net->named_parameters();
  {
    torch::NoGradGuard no_grad;
    parameters["policy.weight"].copy_(torch::tensor({{1.f, 2.f}}));
    parameters["policy.bias"].fill_(3);
  }
  NoisyModel noisy(net, {"policy"}, 0.5);
  ASSERT_EQ(noisy.noise_size(), 3);
  const double sigma = 0.5 / std::sqrt(2);
  noisy.set_noise(std::vector<float>{4, -9, 0.25});  // f: 2, -3, 0.5
  const at::Tensor obs = torch::tensor({{10.f, 100.f}});
  const double expected = (1 + sigma * 0.5 * 2) * 10 + (2 + sigma * 0.5 * -3) * 100 + 3 + sigma * 0.5;
  EXPECT_NEAR(noisy.forward(obs).logits.item<double>(), expected, 1e-3);
  {
    const auto recording = noisy.record(obs);
    EXPECT_NEAR(recording->output().logits.item<double>(), expected, 1e-3);
    recording->backward(torch::full({1, 1}, 2.f), torch::zeros({1}));
  }
  const auto all = noisy.named_parameters();
  EXPECT_TRUE(at::allclose(all["policy.weight"].grad(), torch::tensor({{20.f, 200.f}})));
  EXPECT_TRUE(at::allclose(all["sigma.policy.weight"].grad(), torch::tensor({{20.f * 1.f, 200.f * -1.5f}})));
  EXPECT_TRUE(at::allclose(all["sigma.policy.bias"].grad(), torch::tensor({2.f * 0.5f})));
  // Between passes the parameters are the network's own.
  EXPECT_TRUE(parameters["policy.weight"].equal(torch::tensor({{1.f, 2.f}})));
  EXPECT_EQ(parameters["policy.bias"].item<float>(), 3);
  noisy.clear_noise();
  EXPECT_EQ(noisy.forward(obs).logits.item<float>(), 213);
}

TEST(Noisy, GradientsAddUp) {
  auto net = std::make_shared<Mlp>(kSpec, std::vector<int64_t>{8});
  NoisyModel noisy(net, {"policy", "value"}, 0.5);
  noisy.set_noise(some_noise(noisy.noise_size()));
  const at::Tensor obs = torch::randn({5, 4}), d = torch::randn({5, 3}), v = torch::randn({5});
  noisy.record(obs)->backward(d, v);
  std::vector<at::Tensor> once;
  for (const at::Tensor& p : noisy.parameters()) once.push_back(p.grad().clone());
  noisy.record(obs)->backward(d, v);
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_TRUE(at::allclose(noisy.parameters()[i].grad(), 2 * once[i], 1e-4, 1e-5)) << i;
  }
}

// A network with a hand-written backward pass gives the gradients of torch's.
TEST(Noisy, HandWrittenPassesHaveTheNoiseToo) {
  torch::manual_seed(3);
  auto net = std::make_shared<Cnn>(ModelSpec{{10, 10, 4}, DType::kU8, 3, 0}, minatar_layers());
  NoisyModel noisy(net, {"conv2", "policy"}, 0.5);
  ASSERT_EQ(noisy.noise_size(), 8 * 8 * 16 + 128 + 128 + 3);
  const std::vector<float> noise = some_noise(noisy.noise_size());
  noisy.set_noise(noise);
  const at::Tensor obs = torch::randint(0, 256, {6, 10, 10, 4}, at::kByte), d = torch::randn({6, 3});
  const at::Tensor mine = noisy.forward(obs).logits;
  noisy.record(obs)->backward(d, torch::zeros({6}));
  const at::Tensor sigma_gradient = noisy.named_parameters()["sigma.conv2.weight"].grad().clone();

  const auto all = noisy.named_parameters();
  const auto f = [](const at::Tensor& x) { return x.sign() * x.abs().sqrt(); };
  const at::Tensor e = torch::tensor(noise);
  at::Tensor sigma = all["sigma.conv2.weight"].detach().clone().requires_grad_(true);
  const at::Tensor w2 = all["conv2.weight"].detach() +
                        sigma * at::outer(f(e.narrow(0, 1024, 128)), f(e.narrow(0, 0, 1024))).view({128, 16, 8, 8});
  const at::Tensor b2 = all["conv2.bias"].detach() + all["sigma.conv2.bias"].detach() * f(e.narrow(0, 1024, 128));
  const at::Tensor fi = f(e.narrow(0, 1152, 128)), fo = f(e.narrow(0, 1280, 3));
  const at::Tensor wp = all["policy.weight"].detach() + all["sigma.policy.weight"].detach() * at::outer(fo, fi);
  const at::Tensor bp = all["policy.bias"].detach() + all["sigma.policy.bias"].detach() * fo;
  at::Tensor x = obs.permute({0, 3, 1, 2}).to(at::kFloat) / 255;
  x = at::conv2d(x, all["conv1.weight"].detach(), all["conv1.bias"].detach()).relu();
  const at::Tensor logits = at::linear(at::conv2d(x, w2, b2).relu().flatten(1), wp, bp);
  EXPECT_TRUE(at::allclose(mine, logits, 1e-3, 1e-4));
  logits.backward(d);
  EXPECT_TRUE(at::allclose(sigma_gradient, sigma.grad(), 1e-3, 1e-4));
}

TEST(Noisy, NamesAreTheNetworksAndItsOwn) {
  auto net = std::make_shared<Mlp>(kSpec, std::vector<int64_t>{8});
  NoisyModel noisy(net, {"policy"}, 0.5);
  const Weights plain = net->get_weights(), all = noisy.get_weights();
  ASSERT_EQ(all.entries.size(), plain.entries.size() + 2);
  for (size_t i = 0; i < plain.entries.size(); ++i) EXPECT_EQ(all.entries[i].name, plain.entries[i].name);
  EXPECT_EQ(all.entries.back().name, "sigma.policy.bias");
  EXPECT_THAT(error_of([&] { NoisyModel(net, {"valu"}, 0.5); }), HasSubstr("value"));
  EXPECT_THAT(error_of([&] { NoisyModel(net, {}, 0.5); }), HasSubstr("at least one layer"));
  EXPECT_THAT(error_of([&] { noisy.set_noise(some_noise(3)); }), HasSubstr("another size"));
}

TEST(Noisy, OnePassAtATime) {
  NoisyModel noisy(std::make_shared<Mlp>(kSpec), {"policy"}, 0.5);
  noisy.set_noise(some_noise(noisy.noise_size()));
  const at::Tensor before = noisy.named_parameters()["policy.weight"].detach().clone();
  {
    const auto recording = noisy.record(torch::randn({2, 4}));
    EXPECT_THAT(error_of([&] { noisy.forward(torch::randn({2, 4})); }), HasSubstr("backward"));
  }  // given up: the parameters are as they were
  EXPECT_TRUE(noisy.named_parameters()["policy.weight"].equal(before));
}

}  // namespace
}  // namespace parl
