#include "parl/algorithms/pqn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "parl/agent/nonfinite.h"
#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/epsilon_greedy.h"
#include "parl/algorithms/learn_stat.h"
#include "parl/core/error_of.h"
#include "parl/models/mlp.h"
#include "parl/models/norm.h"

namespace parl {
namespace {

using ::testing::HasSubstr;

const ModelSpec kSpec{{5}, DType::kF32, 3, 0};

at::Tensor returns(std::vector<float> reward, std::vector<int64_t> terminated, std::vector<int64_t> truncated,
                   std::vector<float> next, double lambda) {
  const auto row = [](const auto& v) { return torch::tensor(v).view({1, -1}); };
  return q_lambda_returns(row(reward), row(terminated).to(at::kBool), row(truncated).to(at::kBool), row(next), 0.5,
                          lambda)[0];
}

TEST(Pqn, ReturnsByHand) {
  // gamma 0.5; step 1 terminates, step 3 is truncated, the batch ends after step 5.
  const at::Tensor got =
      returns({1, 2, 3, 4, 5, 6}, {0, 1, 0, 0, 0, 0}, {0, 1, 0, 1, 0, 0}, {10, 20, 30, 40, 50, 60}, 0.25);
  const double r5 = 6 + .5 * 60, r4 = 5 + .5 * (.25 * r5 + .75 * 50), r3 = 4 + .5 * 40;
  const double r2 = 3 + .5 * (.25 * r3 + .75 * 30), r1 = 2, r0 = 1 + .5 * (.25 * r1 + .75 * 10);
  const double expected[] = {r0, r1, r2, r3, r4, r5};
  for (int64_t t = 0; t < 6; ++t) EXPECT_NEAR(got[t].item<double>(), expected[t], 1e-5) << t;
  EXPECT_NEAR(returns({1, 2}, {0, 0}, {0, 0}, {10, 20}, 0)[0].item<double>(), 1 + .5 * 10, 1e-6);
  EXPECT_NEAR(returns({1, 2}, {0, 0}, {0, 0}, {10, 20}, 1)[0].item<double>(), 1 + .5 * (2 + .5 * 20), 1e-6);
}

Batch batch_of(const Weights& reference, const std::string& prefix) {
  const auto get = [&](const char* what) { return to_tensor(get_entry(reference, prefix + what)); };
  Batch b;
  b.obs = get("obs"), b.action = get("action"), b.behaviour_logits = get("behaviour_logits"), b.reward = get("reward");
  b.terminated = get("terminated"), b.truncated = get("truncated");
  b.final_index = get("final_index"), b.final_obs = get("final_obs");
  return b;
}

TEST(Pqn, EqualsPyTorch) {
  SafetensorsMetadata metadata;
  const Weights reference =
      load_safetensors(std::string(PARL_SOURCE_DIR) + "/parl/algorithms/testdata/pqn_reference.safetensors", &metadata);
  const nlohmann::json cases = nlohmann::json::parse(metadata.at("cases"));
  ASSERT_EQ(cases.size(), 4u);
  for (const auto& [name, c] : cases.items()) {
    SCOPED_TRACE(name);
    const auto get = [&](const std::string& what) { return to_tensor(get_entry(reference, name + "/" + what)); };
    PqnConfig config;
    config.gamma = c["gamma"], config.lambda = c["lam"], config.lr = c["lr"], config.eps = c["eps"];
    config.max_grad_norm = c["max_grad_norm"], config.optimizer = c["optimizer"], config.epochs = c["epochs"];
    config.minibatches = 1;  // so that their order does not matter
    auto model = std::make_shared<Mlp>(kSpec, std::vector<int64_t>{8});
    Weights initial;
    for (const auto& item : model->named_parameters()) {
      initial.entries.push_back({item.key(), get_entry(reference, name + "/initial/" + item.key())});
    }
    model->set_weights(initial);
    Pqn pqn(model, config);
    for (int64_t number = 0; number < c["batches"]; ++number) {
      const std::string prefix = std::to_string(number) + "/";
      const LearnStats stats = pqn.learn(batch_of(reference, name + "/" + prefix), 0);
      EXPECT_NEAR(stat(stats, "loss"), get(prefix + "loss").item<double>(), 2e-5);
      EXPECT_NEAR(stat(stats, "grad_norm"), get(prefix + "grad_norm").item<double>(), 2e-5);
      EXPECT_NEAR(stat(stats, "target_mean"), get(prefix + "returns").mean().item<double>(), 2e-5);
      for (const auto& item : model->named_parameters()) {
        EXPECT_TRUE(at::allclose(item.value(), get(prefix + "after/" + item.key()), 1e-4, 1e-5)) << item.key();
      }
    }
  }
}

Batch one_step(const at::Tensor& obs, double reward) {
  Batch b;
  const int64_t n = obs.size(0);
  b.obs = at::stack({obs, obs}, 1);
  b.action = torch::arange(n).remainder(3).view({n, 1});
  b.behaviour_logits = torch::zeros({n, 1, 3});
  b.reward = torch::full({n, 1}, reward, at::kFloat);
  b.terminated = torch::ones({n, 1}, at::kBool);
  b.truncated = torch::zeros({n, 1}, at::kBool);
  b.final_index = torch::zeros({0}, at::kLong);
  return b;
}

// One epoch at lr 0: the loss is the same however the steps are cut into minibatches, so each is learnt exactly once.
TEST(Pqn, MinibatchesHoldEveryStepOnce) {
  torch::manual_seed(1);
  const at::Tensor obs = torch::randn({12, 5});
  std::vector<double> losses;
  for (const int64_t minibatches : {1, 3, 12}) {
    PqnConfig config;
    config.epochs = 1, config.minibatches = minibatches, config.lr = 0;
    torch::manual_seed(2);
    Pqn pqn(std::make_shared<MlpNorm>(kSpec), config);
    losses.push_back(stat(pqn.learn(one_step(obs, 2), 0), "loss"));
  }
  EXPECT_NEAR(losses[1], losses[0], 1e-5);
  EXPECT_NEAR(losses[2], losses[0], 1e-5);
}

TEST(Pqn, EpsilonTravelsWithTheWeights) {
  PqnConfig config;
  config.exploration = "0:1,1000:0.25";
  Pqn learner(std::make_shared<MlpNorm>(kSpec), config), actor(std::make_shared<MlpNorm>(kSpec));
  EXPECT_EQ(learner.epsilon(), 1);
  learner.learn(one_step(torch::randn({4, 5}), 0), 996);  // the schedule is at step 1,000 now
  actor.set_weights(learner.get_weights());
  EXPECT_FLOAT_EQ(static_cast<float>(actor.epsilon()), 0.25f);
  actor.play_for_evaluation(true);
  EXPECT_EQ(actor.epsilon(), 0.001);
}

TEST(Pqn, ErrorsNameTheSetting) {
  const auto error = [](auto&& change) {
    PqnConfig config;
    change(config);
    return error_of([&] { config.check(); });
  };
  EXPECT_THAT(error([](PqnConfig& c) { c.lambda = 1.5; }), HasSubstr("lambda is 1.5"));
  EXPECT_THAT(error([](PqnConfig& c) { c.optimizer = "adm"; }), HasSubstr("adam"));
  EXPECT_THAT(error([](PqnConfig& c) { c.epochs = 0; }), HasSubstr("epochs"));
  EXPECT_THAT(error([](PqnConfig& c) { c.exploration = "x"; }), HasSubstr("x"));
  EXPECT_THAT(error([](PqnConfig& c) { c.exploration = "0:1,9:1.5"; }), HasSubstr("exploration has 1.5 at step 9"));
  PqnConfig config;
  config.minibatches = 9;
  Pqn pqn(std::make_shared<MlpNorm>(kSpec), config);
  EXPECT_THAT(error_of([&] { pqn.learn(one_step(torch::randn({4, 5}), 0), 0); }), HasSubstr("minibatches"));
  Pqn other(std::make_shared<MlpNorm>(kSpec));
  const Weights before = other.get_weights();
  EXPECT_THROW(other.learn(one_step(torch::randn({4, 5}), std::numeric_limits<double>::quiet_NaN()), 0),
               NonFiniteError);
  EXPECT_TRUE(before.entries[0].array == other.get_weights().entries[0].array);
}

TEST(EpsilonGreedy, ValuesThatRanAwayAreNamed) {
  EXPECT_THAT(error_of([&] { greedy_of(torch::tensor({{1.0f, NAN}})); }), HasSubstr("Q-values contain NaN"));
}

}  // namespace
}  // namespace parl
