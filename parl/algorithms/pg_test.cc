#include "parl/algorithms/pg.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "parl/agent/nonfinite.h"
#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/learn_stat.h"
#include "parl/core/check.h"
#include "parl/models/mlp.h"

namespace parl {
namespace {

std::shared_ptr<Model> make_mlp(bool gaussian = false) {
  ModelSpec spec{{5}, DType::kF32, gaussian ? 0 : 3, gaussian ? 2 : 0};
  if (gaussian) spec.action_low = {-1, -1}, spec.action_high = {1, 1};
  return std::make_shared<Mlp>(spec, std::vector<int64_t>{8});
}

// One unroll of five steps, rewards 1, 2, 4, 8, 16; terminated or truncated after some step (-1: never).
Batch unroll(int64_t terminated_at, int64_t truncated_at) {
  Batch b;
  b.obs = torch::arange(30).to(at::kFloat).view({1, 6, 5}) / 30;
  b.action = torch::tensor({0, 1, 2, 0, 1}, at::kLong).view({1, 5});
  b.behaviour_logits = torch::zeros({1, 5, 3});
  b.reward = torch::tensor({1.f, 2.f, 4.f, 8.f, 16.f}).view({1, 5});
  b.terminated = torch::zeros({1, 5}, at::kBool);
  b.truncated = torch::zeros({1, 5}, at::kBool);
  if (terminated_at >= 0) b.terminated[0][terminated_at] = true;
  if (truncated_at >= 0) b.truncated[0][truncated_at] = true;
  const bool final = truncated_at >= 0 && truncated_at != terminated_at;
  b.final_index = final ? torch::tensor({truncated_at}, at::kLong) : torch::zeros({0}, at::kLong);
  if (final) b.final_obs = torch::ones({1, 5});
  return b;
}

std::vector<float> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kFloat).contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

TEST(Pg, ReturnsByHand) {
  const at::Tensor value = torch::tensor({0.f, 0.f, 0.f, 0.f, 0.f, 64.f}).view({1, 6}), final = torch::tensor({32.f});
  // gamma 1/2. Without an end: V(obs[5]) bootstraps; without a value nothing is known.
  ReturnsToGo r = returns_to_go(unroll(-1, -1), 0.5, value);
  EXPECT_EQ(numbers(r.returns), (std::vector<float>{7, 12, 20, 32, 48}));
  EXPECT_TRUE(r.known.all().item<bool>());
  EXPECT_FALSE(returns_to_go(unroll(-1, -1), 0.5).known.any().item<bool>());
  // Terminated after step 2: nothing from beyond.
  r = returns_to_go(unroll(2, -1), 0.5, value);
  EXPECT_EQ(numbers(r.returns), (std::vector<float>{3, 4, 4, 32, 48}));
  r = returns_to_go(unroll(2, -1), 0.5);
  EXPECT_EQ(numbers(r.known), (std::vector<float>{1, 1, 1, 0, 0}));
  EXPECT_EQ(numbers(r.returns.narrow(1, 0, 3)), (std::vector<float>{3, 4, 4}));
  // Truncated there: the final observation's value, or the return up to the limit.
  r = returns_to_go(unroll(-1, 2), 0.5, value, final);
  EXPECT_EQ(numbers(r.returns), (std::vector<float>{7, 12, 20, 32, 48}));
  r = returns_to_go(unroll(-1, 2), 0.5);
  EXPECT_EQ(numbers(r.known), (std::vector<float>{1, 1, 1, 0, 0}));
  EXPECT_EQ(numbers(r.returns.narrow(1, 0, 3)), (std::vector<float>{3, 4, 4}));
  // Both flags: terminated wins.
  r = returns_to_go(unroll(2, 2), 0.5, value);
  EXPECT_EQ(numbers(r.returns), (std::vector<float>{3, 4, 4, 32, 48}));
  EXPECT_THROW(returns_to_go(unroll(-1, 2), 0.5, value), Error);
}

TEST(Pg, EqualsPyTorch) {
  SafetensorsMetadata metadata;
  const Weights reference =
      load_safetensors(std::string(PARL_SOURCE_DIR) + "/parl/algorithms/testdata/pg_reference.safetensors", &metadata);
  const nlohmann::json cases = nlohmann::json::parse(metadata.at("cases"));
  ASSERT_EQ(cases.size(), 6u);
  for (const auto& [name, c] : cases.items()) {
    SCOPED_TRACE(name);
    const std::string prefix = name + "/";
    const auto get = [&](const std::string& what) { return to_tensor(get_entry(reference, prefix + what)); };
    PgConfig config;
    config.gamma = c["gamma"], config.value_cost = c["value_cost"], config.entropy_cost = c["entropy_cost"];
    config.lr = c["lr"], config.eps = c["eps"], config.max_grad_norm = c["max_grad_norm"];
    config.normalize_advantage = c["normalize"];
    const std::string baseline = c["baseline"];
    config.baseline = baseline == "value" ? Baseline::kValue : baseline == "mean" ? Baseline::kMean : Baseline::kNone;
    auto model = make_mlp(c["gaussian"]);
    Weights initial;
    for (const auto& item : model->named_parameters()) {
      initial.entries.push_back({item.key(), get_entry(reference, prefix + "initial/" + item.key())});
    }
    model->set_weights(initial);
    Pg pg(model, config);
    for (int step = 0; step < 3; ++step) {
      const std::string at = std::to_string(step) + "/";
      Batch batch;
      batch.obs = get(at + "obs"), batch.action = get(at + "action"), batch.reward = get(at + "reward");
      batch.behaviour_logits = get(at + "behaviour_logits");
      batch.terminated = get(at + "terminated"), batch.truncated = get(at + "truncated");
      batch.final_index = get(at + "final_index"), batch.final_obs = get(at + "final_obs");
      if (config.baseline != Baseline::kValue) {
        const ReturnsToGo r = returns_to_go(batch, config.gamma);
        EXPECT_TRUE(r.known.equal(get(at + "known")));
        EXPECT_TRUE(at::allclose(r.returns * r.known, get(at + "returns") * r.known, 1e-5, 1e-5));
      }
      const LearnStats stats = pg.learn(batch, 0);
      const double loss = get(at + "loss").item<double>(), norm = get(at + "grad_norm").item<double>();
      EXPECT_NEAR(stat(stats, "loss"), loss, 2e-5 * (1 + std::abs(loss)));
      EXPECT_NEAR(stat(stats, "grad_norm"), norm, 2e-5 * (1 + norm));
      for (const auto& item : model->named_parameters()) {
        EXPECT_TRUE(at::allclose(item.value(), get(at + "after/" + item.key()), 1e-4, 1e-5)) << at << item.key();
      }
    }
  }
}

TEST(Pg, WithoutAKnownReturnNothingIsLearnt) {
  PgConfig config;
  config.baseline = Baseline::kMean;
  auto model = make_mlp();
  Pg pg(model, config);
  const Weights before = pg.get_weights();
  const LearnStats stats = pg.learn(unroll(-1, -1), 0);
  EXPECT_EQ(stat(stats, "updates"), 0);
  EXPECT_EQ(stat(stats, "share_learnt"), 0);
  EXPECT_TRUE(before.entries[0].array == pg.get_weights().entries[0].array);
  EXPECT_EQ(stat(pg.learn(unroll(3, -1), 0), "share_learnt"), 0.8);
}

TEST(Pg, NamesWhatIsNotFinite) {
  Pg pg(make_mlp());
  const Weights before = pg.get_weights();
  Batch batch = unroll(4, -1);
  batch.reward[0][1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(pg.learn(batch, 0), NonFiniteError);
  EXPECT_TRUE(before.entries[0].array == pg.get_weights().entries[0].array);
  PgConfig config;
  config.gamma = 2;
  EXPECT_THROW(Pg(make_mlp(), config), Error);
}

}  // namespace
}  // namespace parl
