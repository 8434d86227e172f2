#include "parl/models/dict_net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "parl/agent/recurrent.h"
#include "parl/agent/safetensors.h"
#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/models/policy.h"
#include "parl/models/registry.h"

namespace parl {
namespace {

using ::testing::HasSubstr;

// A picture of 40 x 40 x 3, a small board of floats, three quantities, a number of 5, and a mask over {3, 2}.
ModelSpec spec_of_parts() {
  ModelSpec spec{{4'800 + 256 + 16 + 8 + 8}, DType::kU8, 5, 0};
  spec.action_choices = {3, 2};
  spec.parts = {{"cam/rgb", DType::kU8, {40, 40, 3}, 0, {}, 1.0 / 255},
                {"board", DType::kF32, {8, 8, 1}, 4'800},
                {"arm.pose", DType::kF32, {3}, 5'056},
                {"gear", DType::kI64, {}, 5'072, {5}},
                {"action_mask", DType::kU8, {5}, 5'080}};
  return spec;
}

TEST(DictNet, IsTheDefaultForPartsAndTakesThemAll) {
  const ModelSpec spec = spec_of_parts();
  EXPECT_EQ(default_model_for(spec), "dict");
  torch::manual_seed(2);
  const auto model = builtin_models().make("dict", spec);
  EXPECT_EQ(model->action_choices(), spec.action_choices);
  std::vector<std::string> names;
  for (const auto& item : model->named_parameters()) names.push_back(item.key());
  for (const char* name : {"cam_rgb_conv1.weight", "cam_rgb_conv3.weight", "cam_rgb.weight", "board_conv1.weight",
                           "board.weight", "arm_pose.weight", "gear.weight", "joint.weight", "policy.bias"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  at::Tensor obs = torch::zeros({2, spec.obs_shape[0]}, at::kByte);
  obs.narrow(1, 5'080, 5).fill_(1);
  const PolicyValue before = model->forward(obs);
  EXPECT_EQ(before.logits.sizes(), (std::vector<int64_t>{2, 5}));
  // Every part but the mask reaches the value.
  for (const auto& [offset, byte] : {std::pair{40, 200}, {4'803, 0x3F}, {5'059, 0x3F}, {5'072, 2}}) {
    at::Tensor other = obs.clone();
    other[1][offset] = byte;
    const PolicyValue after = model->forward(other);
    EXPECT_EQ(after.value[0].item<float>(), before.value[0].item<float>());
    EXPECT_NE(after.value[1].item<float>(), before.value[1].item<float>()) << "byte " << offset;
  }
  obs[1][5'080 + 1] = 0;
  EXPECT_EQ(model->forward(obs).logits[1][1].item<float>(), -1e9f);
}

// Behind a mask, too: a memory, whose policy never takes what is forbidden, through a file and back.
TEST(DictNet, HasAFormWithAMemory) {
  const ModelSpec spec = spec_of_parts();
  torch::manual_seed(3);
  const auto model = builtin_models().make("dict_lstm", spec);
  ASSERT_NE(model->recurrent(), nullptr);
  EXPECT_EQ(model->recurrent()->state_size(), 256);
  EXPECT_EQ(model->action_choices(), spec.action_choices);
  std::vector<std::string> names;
  for (const auto& item : model->named_parameters()) names.push_back(item.key());
  for (const char* name : {"trunk.board_conv1.weight", "trunk.joint.weight", "lstm.weight_hh", "policy.bias"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  EXPECT_EQ(std::find(names.begin(), names.end(), "trunk.policy.weight"), names.end());
  const std::string file = (std::filesystem::temp_directory_path() / "parl_dict_lstm_test.safetensors").string();
  save_safetensors(file, model->get_weights(), policy_metadata("dict_lstm", spec));
  const auto policy = load_policy(file);
  std::filesystem::remove(file);
  at::Tensor memory = model->recurrent()->initial_state(1);
  const torch::NoGradGuard no_grad;
  for (int step = 0; step < 12; ++step) {
    at::Tensor obs = torch::randint(0, 256, {1, spec.obs_shape[0]}, at::kByte);
    obs.narrow(1, 4'800, 268).zero_();  // the board and the arm: no NaN
    obs.narrow(1, 5'072, 8).zero_();
    obs.narrow(1, 5'080, 5).fill_(1);
    const int64_t forbidden = step % 3;
    obs[0][5'080 + forbidden] = 0;
    const StepOutput out = model->recurrent()->step(obs, memory);
    EXPECT_EQ(out.output.logits[0][forbidden].item<float>(), -1e9f);
    memory = out.state;
    EXPECT_TRUE(policy->forward(obs).logits.equal(out.output.logits)) << step;
  }
  EXPECT_GT(memory.abs().max().item<float>(), 0.01);
}

TEST(DictNet, OthersSayThatTheyTakeNoParts) {
  for (const char* name : {"mlp", "mlp64", "mlp256", "mlp_norm", "mlp_lstm", "nature", "nature_norm", "impala_deep"}) {
    EXPECT_THROW(builtin_models().make(name, spec_of_parts()), Error) << name;
  }
  EXPECT_THAT(error_of([] { builtin_models().make("mlp256", spec_of_parts()); }), HasSubstr("'cam/rgb': use dict"));
  EXPECT_THROW(builtin_models().make("dict", ModelSpec{{4}, DType::kF32, 2, 0}), Error);
}

TEST(DictNet, LoadsAsAPolicy) {
  const ModelSpec spec = spec_of_parts();
  torch::manual_seed(5);
  const auto model = builtin_models().make("dict", spec);
  const std::string file = (std::filesystem::temp_directory_path() / "parl_dict_net_test.safetensors").string();
  save_safetensors(file, model->get_weights(), policy_metadata("dict", spec));
  const auto policy = load_policy(file);
  std::filesystem::remove(file);
  ASSERT_EQ(policy->spec().parts.size(), 5u);
  EXPECT_EQ(policy->spec().parts[0].name, "cam/rgb");
  EXPECT_EQ(policy->spec().parts[0].scale, 1.0 / 255);
  EXPECT_EQ(policy->spec().parts[3].choices, std::vector<int64_t>{5});
  EXPECT_TRUE(policy->spec().parts[3].shape.empty());
  std::vector<std::byte> obs(static_cast<size_t>(spec.obs_shape[0]), std::byte{0});
  obs[5'080] = obs[5'081] = obs[5'084] = std::byte{1};  // of the second number only 1 is legal
  const std::vector<int64_t> action = policy->act_indices(obs);
  ASSERT_EQ(action.size(), 2u);
  EXPECT_LT(action[0], 2);
  EXPECT_EQ(action[1], 1);
  EXPECT_THROW(policy->act(obs), Error);
}

// Two quantities, a number of 3, and actions of two components.
ModelSpec spec_of_control() {
  ModelSpec spec{{16}, DType::kU8, 0, 2, {-1, -1}, {1, 1}};
  spec.parts = {{"pose", DType::kF32, {2}, 0}, {"gear", DType::kI64, {}, 8, {3}}};
  return spec;
}

at::Tensor control_obs(float x, float y, int64_t gear) {
  const at::Tensor bytes = torch::empty({1, 16}, at::kByte);
  auto* to = bytes.mutable_data_ptr<uint8_t>();
  std::memcpy(to, &x, 4), std::memcpy(to + 4, &y, 4), std::memcpy(to + 8, &gear, 8);
  return bytes;
}

TEST(DictCritic, IsWhatItSaysItIs) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(7);
  const auto critic = builtin_models().critic_factory("dict")(spec_of_control());
  const at::Tensor obs = at::cat({control_obs(0.5, -2, 2), control_obs(-1, 0.25, 0)}), action = torch::rand({2, 2});
  std::map<std::string, at::Tensor> w;
  for (const auto& item : critic->named_parameters()) w[item.key()] = item.value();
  ASSERT_EQ(w.size(), 10u);
  const auto layer = [&](const std::string& name, const at::Tensor& x) {
    return at::matmul(x, w.at(name + ".weight").t()) + w.at(name + ".bias");
  };
  const at::Tensor pose = layer("pose", torch::tensor({{0.5f, -2.0f}, {-1.0f, 0.25f}})).tanh();
  const at::Tensor gear = layer("gear", torch::tensor({{0.0f, 0.0f, 1.0f}, {1.0f, 0.0f, 0.0f}})).tanh();
  const at::Tensor joint = layer("joint1", at::cat({pose, gear, action}, 1)).clamp_min(0);
  const at::Tensor expected = layer("head", layer("joint2", joint).clamp_min(0)).squeeze(1);
  const at::Tensor q = critic->forward(obs, action);
  ASSERT_EQ(q.sizes(), std::vector<int64_t>{2});
  EXPECT_TRUE(at::allclose(q, expected, 1e-5, 1e-6));
}

TEST(DictCritic, IsWhatAutoTakesForParts) {
  ModelRegistry models = builtin_models();
  const ModelSpec spec = spec_of_control();
  const auto is_dict = [&](const std::string& model) {
    return models.critic_factory("auto", model, true)(spec)->named_parameters().contains("joint2.weight");
  };
  EXPECT_TRUE(is_dict("dict"));
  EXPECT_TRUE(is_dict("a network of mine"));
  for (const char* name : {"mlp", "mlp64", "mlp256"}) {
    EXPECT_THAT(error_of([&] { models.critic_factory(name)(spec); }), HasSubstr("'pose': use dict")) << name;
  }
  EXPECT_THAT(error_of([&] {
                models.critic_factory("dict")({{3}, DType::kF32, 0, 1, {-1}, {1}});
              }),
              HasSubstr("one array"));
}

}  // namespace
}  // namespace parl
