#include "parl/models/normalized.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "parl/agent/recurrent.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/models/registry.h"

namespace parl {
namespace {

const ModelSpec kSpec{{2}, DType::kF32, 2, 0};

// Shows what it sees.
struct Mirror : Model {
  PolicyValue forward(const at::Tensor& obs) override { return {obs, obs.sum(-1)}; }
};

at::Tensor seen(Model& model, const at::Tensor& obs) { return model.forward(obs).logits; }

double entry(const Model& model, const std::string& name, int64_t i = 0) {
  return to_tensor(get_entry(model.get_weights(), name)).flatten()[i].item<double>();
}

// Mean and variance of 1..n are (n + 1) / 2 and (n^2 - 1) / 12, however they come in batches.
TEST(Normalized, StatisticsAreThoseOfEverythingSeen) {
  const auto model = normalized(std::make_shared<Mirror>(), kSpec);
  EXPECT_TRUE(seen(*model, torch::tensor({{0.5f, -20.0f}})).equal(torch::tensor({{0.5f, -10.0f}})));  // nothing yet
  int64_t next = 1;
  for (const auto& [unrolls, length] : {std::pair<int64_t, int64_t>{1, 1}, {4, 8}, {1, 3}, {16, 4}}) {
    const at::Tensor one = torch::arange(next, next + unrolls * length, at::kFloat).view({unrolls, length});
    model->observe(torch::stack({one, one * -3 + 1e6}, -1));
    next += unrolls * length;
  }
  const double n = static_cast<double>(next - 1), mean = (n + 1) / 2, variance = (n * n - 1) / 12;
  EXPECT_EQ(entry(*model, "observations.count"), n);
  EXPECT_NEAR(entry(*model, "observations.mean"), mean, 1e-12 * mean);
  EXPECT_NEAR(entry(*model, "observations.variance"), variance, 1e-12 * variance);
  EXPECT_NEAR(entry(*model, "observations.mean", 1), 1e6 - 3 * mean, 1e-6);
  EXPECT_NEAR(entry(*model, "observations.variance", 1), 9 * variance, 1e-6);  // double: no digits lost to the mean
  const at::Tensor x = seen(*model, torch::tensor({{20.0f, 1e6f}, {1e5f, -1e9f}}));
  EXPECT_NEAR(x[0][0].item<float>(), (20 - mean) / std::sqrt(variance), 1e-6);
  EXPECT_NEAR(x[0][1].item<float>(), 3 * mean / std::sqrt(9 * variance), 1e-6);
  EXPECT_EQ(x[1][0].item<float>(), 10);
  EXPECT_EQ(x[1][1].item<float>(), -10);
}

TEST(Normalized, ANumberThatNeverChangesIsZero) {
  const auto model = normalized(std::make_shared<Mirror>(), kSpec);
  model->observe(torch::full({3, 4, 2}, 7.0f));
  EXPECT_EQ(seen(*model, torch::full({1, 2}, 7.0f)).abs().max().item<float>(), 0);
}

TEST(Normalized, KnowsOfSeveralNumbers) {
  ModelSpec spec{{2}, DType::kF32, 5, 0};
  spec.action_choices = {3, 2};
  for (const char* name : {"normalized:mlp", "normalized:mlp_lstm"}) {
    EXPECT_EQ(builtin_models().make(name, spec)->action_choices(), spec.action_choices) << name;
  }
}

TEST(Normalized, TravelsWithTheWeights) {
  const ModelRegistry models = builtin_models();
  for (const char* name : {"normalized:mlp", "normalized:mlp_lstm"}) {
    torch::manual_seed(1);
    const auto a = models.make(name, kSpec), b = models.make(name, kSpec);
    a->observe(torch::randn({5, 6, 2}) * 3 + 1);
    b->set_weights(a->get_weights());
    const at::Tensor obs = torch::randn({4, 2});
    const torch::NoGradGuard no_grad;
    const auto policy = [&](Model& model) {
      RecurrentModel* recurrent = model.recurrent();
      return recurrent ? recurrent->step(obs, recurrent->initial_state(4)).output.logits : model.forward(obs).logits;
    };
    EXPECT_TRUE(policy(*a).equal(policy(*b))) << name;
    EXPECT_EQ(get_entry(a->get_weights(), "observations.mean").dtype(), DType::kF64);
  }
}

// What the network behind it learns is what it would from observations that were normalised before.
TEST(Normalized, GradientsAreTheNetworks) {
  const ModelRegistry models = builtin_models();
  for (const std::string name : {"mlp", "mlp_lstm"}) {
    torch::manual_seed(1);
    const auto bare = models.make(name, kSpec);
    const auto model = normalized(bare, kSpec);
    model->observe(torch::randn({5, 6, 2}) * 3 + 1);
    const at::Tensor obs = torch::randn({2, 3, 2});
    const at::Tensor x = (obs.to(at::kDouble) - to_tensor(get_entry(model->get_weights(), "observations.mean"))) /
                         to_tensor(get_entry(model->get_weights(), "observations.variance")).sqrt();
    std::vector<at::Tensor> gradients;
    for (const auto& [network, seen] : {std::pair{bare, x.to(at::kFloat)}, std::pair{model, obs}}) {
      std::unique_ptr<Recording> recording;
      if (RecurrentModel* recurrent = network->recurrent()) {
        const at::Tensor none = torch::zeros({2, 3}, at::kBool);
        recording = recurrent->record_sequence({seen, recurrent->initial_state(2), none, {}}).recording;
      } else {
        recording = network->record(seen.flatten(0, 1));
      }
      recording->backward(torch::ones({6, 2}) * torch::arange(2), torch::ones({6}));
      gradients.push_back(bare->parameters()[0].grad().clone());
      for (at::Tensor& p : bare->parameters()) p.mutable_grad() = at::Tensor();
    }
    EXPECT_TRUE(at::allclose(gradients[0], gradients[1], 1e-4, 1e-6)) << name;
  }
}

TEST(Normalized, ErrorsSayWhatToDo) {
  const ModelRegistry models = builtin_models();
  EXPECT_THAT(error_of([&] {
                models.make("normalized:nature", {{84, 84, 4}, DType::kU8, 3, 0});
              }),
              testing::HasSubstr("--normalize-observations"));
  EXPECT_THAT(error_of([&] { models.make("normalized:mpl", kSpec); }), testing::HasSubstr("mlp"));
  EXPECT_EQ(models.help("normalized:mlp"), models.help("mlp"));
}

}  // namespace
}  // namespace parl
