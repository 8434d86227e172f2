#include "parl/algorithms/bc.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "parl/agent/nonfinite.h"
#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/learn_stat.h"
#include "parl/core/error_of.h"
#include "parl/models/mlp.h"
#include "parl/models/registry.h"

namespace parl {
namespace {

std::shared_ptr<Model> make_mlp(bool gaussian) {
  const ModelSpec discrete{{5}, DType::kF32, 3, 0}, continuous{{5}, DType::kF32, 0, 2, {-1, -1}, {1, 1}};
  return std::make_shared<Mlp>(gaussian ? continuous : discrete, std::vector<int64_t>{8});
}

Batch batch_of(const at::Tensor& obs, const at::Tensor& action) {
  const int64_t B = action.size(0), T = action.size(1);
  Batch b;
  b.obs = obs;
  b.action = action;
  b.behaviour_logits = torch::zeros({B, T, action.dim() == 3 ? 2 * action.size(2) : 3});
  b.reward = torch::full({B, T}, 7.0f);  // of no importance
  b.terminated = torch::zeros({B, T}, at::kBool);
  b.truncated = torch::zeros({B, T}, at::kBool);
  b.final_index = torch::zeros({0}, at::kLong);
  b.version = torch::zeros({B}, at::kLong);
  return b;
}

TEST(Bc, EqualsPyTorch) {
  SafetensorsMetadata metadata;
  const Weights reference =
      load_safetensors(std::string(PARL_SOURCE_DIR) + "/parl/algorithms/testdata/bc_reference.safetensors", &metadata);
  const nlohmann::json cases = nlohmann::json::parse(metadata.at("cases"));
  ASSERT_EQ(cases.size(), 6u);
  for (const auto& [name, c] : cases.items()) {
    SCOPED_TRACE(name);
    const auto get = [&](const std::string& what) { return to_tensor(get_entry(reference, name + "/" + what)); };
    BcConfig config;
    config.lr = c["lr"], config.eps = c["eps"], config.max_grad_norm = c["max_grad_norm"];
    config.entropy_cost = c["entropy_cost"], config.minibatches = c["minibatches"];
    auto model = make_mlp(c["gaussian"]);
    Weights initial;
    for (const auto& item : model->named_parameters())
      initial.entries.push_back({item.key(), get_entry(reference, name + "/initial/" + item.key())});
    model->set_weights(initial);
    Bc bc(model, config);
    const Batch batch = batch_of(get("obs"), get("action"));
    LearnStats stats;
    for (int i = 0; i < 3; ++i) stats = bc.learn(batch, 0);
    EXPECT_NEAR(stat(stats, "loss"), get("loss").item<double>(), 2e-5);
    EXPECT_NEAR(stat(stats, "grad_norm"), get("grad_norm").item<double>(), 2e-5);
    for (const auto& item : model->named_parameters())
      EXPECT_TRUE(at::allclose(item.value(), get("after/" + item.key()), 1e-4, 1e-5)) << item.key();
  }
}

TEST(Bc, LearnsWhatWasDone) {
  torch::manual_seed(3);
  BcConfig config;
  config.lr = 1e-2;
  Bc bc(make_mlp(false), config);
  const at::Tensor obs = torch::randn({16, 9, 5});
  const Batch batch = batch_of(obs, obs.narrow(1, 0, 8).narrow(2, 0, 3).argmax(2));
  for (int i = 0; i < 200; ++i) bc.learn(batch, 0);
  const LearnStats stats = bc.learn(batch, 0);
  EXPECT_GT(stat(stats, "accuracy"), 0.95);
  EXPECT_LT(stat(stats, "loss"), 0.3);
}

TEST(Bc, ContinuesToTheBit) {
  torch::manual_seed(5);
  Bc whole(make_mlp(true));
  Bc part(make_mlp(true));
  const Batch batch = batch_of(torch::randn({4, 5, 5}), torch::randn({4, 4, 2}));
  whole.learn(batch, 0);
  part.set_weights(whole.get_weights());
  part.set_state(whole.get_state());
  EXPECT_EQ(whole.learn(batch, 0), part.learn(batch, 0));
  const Weights a = whole.get_weights(), b = part.get_weights();
  for (size_t i = 0; i < a.entries.size(); ++i) EXPECT_TRUE(a.entries[i].array == b.entries[i].array);
}

TEST(Bc, RefusesWhatAMaskForbids) {
  ModelSpec spec{{24}, DType::kU8, 3, 0};
  spec.parts = {{"x", DType::kF32, {4}, 0}, {"action_mask", DType::kU8, {3}, 16}};
  Bc bc(builtin_models().make("dict", spec));
  at::Tensor obs = torch::zeros({1, 3, 24}, at::kByte);
  obs.narrow(2, 16, 3).fill_(1);
  obs[0][1][17] = 0;  // of the second step's
  Batch batch = batch_of(obs, torch::full({1, 2}, 2, at::kLong));
  bc.learn(batch, 0);
  batch.action[0][1] = 1;
  EXPECT_NE(error_of([&] { bc.learn(batch, 0); }).find("forbids"), std::string::npos);
}

TEST(Bc, RefusesWhatCannotBeLearnt) {
  torch::manual_seed(6);
  Bc bc(make_mlp(false));
  at::Tensor obs = torch::randn({2, 3, 5});
  obs[1][0][2] = std::numeric_limits<float>::quiet_NaN();
  const Weights before = bc.get_weights();
  EXPECT_THROW(bc.learn(batch_of(obs, torch::zeros({2, 2}, at::kLong)), 0), NonFiniteError);
  for (size_t i = 0; i < before.entries.size(); ++i)
    EXPECT_TRUE(before.entries[i].array == bc.get_weights().entries[i].array);
  Bc actor(make_mlp(false), {}, false);
  EXPECT_NE(error_of([&] { actor.get_state(); }).find("acts only"), std::string::npos);
  BcConfig wrong;
  wrong.minibatches = 0;
  EXPECT_NE(error_of([&] { Bc(make_mlp(false), wrong); }).find("minibatches"), std::string::npos);
}

}  // namespace
}  // namespace parl
