#include "parl/agent/obs_parts.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>

#include "parl/agent/masked_model.h"
#include "parl/core/check.h"

namespace parl {
namespace {

// camera uint8 [2, 2, 1] at 0, arm float32 [3] at 4, gear of 5 at 16, wheels of 2 and 3 at 24, mask at 40.
ModelSpec robot() {
  ModelSpec spec{{48}, DType::kU8, 4, 0};
  spec.parts = {{"camera", DType::kU8, {2, 2, 1}, 0, {}, 1.0 / 255},
                {"arm", DType::kF32, {3}, 4},
                {"gear", DType::kI64, {}, 16, {5}},
                {"wheels", DType::kI64, {2}, 24, {2, 3}},
                {"action_mask", DType::kU8, {4}, 40, {2, 2, 2, 2}}};
  return spec;
}

template <typename T>
void put(at::Tensor& obs, int64_t row, int64_t offset, std::vector<T> values) {
  std::memcpy(obs.mutable_data_ptr<uint8_t>() + row * obs.size(1) + offset, values.data(), values.size() * sizeof(T));
}

at::Tensor two_rows() {
  at::Tensor obs = torch::zeros({2, 48}, at::kByte);
  put<uint8_t>(obs, 1, 0, {0, 51, 102, 255});
  put<float>(obs, 1, 4, {0.5f, -1.5f, 2.0f});
  put<int64_t>(obs, 1, 16, {3});
  put<int64_t>(obs, 1, 24, {1, 2});
  put<uint8_t>(obs, 1, 40, {0, 1, 1, 0});
  return obs;
}

TEST(ObsParts, AreViewsOfTheBlock) {
  const at::Tensor obs = two_rows();
  const ModelSpec spec = robot();
  const at::Tensor arm = part_view(obs, find_part(spec, "arm")), camera = part_view(obs, find_part(spec, "camera"));
  EXPECT_EQ(arm.scalar_type(), at::kFloat);
  EXPECT_TRUE(arm[1].equal(torch::tensor({0.5f, -1.5f, 2.0f})));
  EXPECT_EQ(camera.sizes(), (std::vector<int64_t>{2, 2, 2, 1}));
  EXPECT_EQ(camera[1][1][0][0].item<int>(), 102);
  EXPECT_EQ(part_view(obs, find_part(spec, "gear")).sizes(), std::vector<int64_t>{2});
  EXPECT_EQ(arm.const_data_ptr(), obs.const_data_ptr<uint8_t>() + 4) << "a copy was made";
  // As an actor has them: every (T + 1)th row of a rollout.
  const at::Tensor rollout = torch::zeros({3, 7, 48}, at::kByte);
  EXPECT_EQ(part_view(rollout.select(1, 2), find_part(spec, "wheels")).const_data_ptr(),
            rollout.const_data_ptr<uint8_t>() + 2 * 48 + 24);
}

TEST(ObsParts, WhatIsNotAlignedIsCopied) {
  const at::Tensor odd = torch::zeros({2, 49}, at::kByte).narrow(1, 1, 48);
  odd.copy_(two_rows());
  EXPECT_TRUE(part_view(odd, find_part(robot(), "arm"))[1].equal(torch::tensor({0.5f, -1.5f, 2.0f})));
}

TEST(ObsParts, FeaturesAreOneHotOrScaled) {
  const at::Tensor obs = two_rows();
  const ModelSpec spec = robot();
  EXPECT_TRUE(one_hot(obs, find_part(spec, "gear"))
                  .equal(torch::tensor({{1.f, 0.f, 0.f, 0.f, 0.f}, {0.f, 0.f, 0.f, 1.f, 0.f}})));
  EXPECT_TRUE(part_features(obs, find_part(spec, "wheels"))[1].equal(torch::tensor({0.f, 1.f, 0.f, 0.f, 1.f})));
  EXPECT_TRUE(at::allclose(part_features(obs, find_part(spec, "camera"))[1], torch::tensor({0.f, .2f, .4f, 1.f})));
  EXPECT_THROW(one_hot(obs, find_part(spec, "arm")), Error);
  EXPECT_THROW(find_part(spec, "arms"), Error);
  EXPECT_THROW(part_view(obs.narrow(1, 0, 40), find_part(spec, "action_mask")), Error);
}

TEST(ObsParts, AMaskWithoutALegalActionAllowsAll) {
  ModelSpec spec = robot();
  const at::Tensor obs = two_rows();
  EXPECT_TRUE(legal_actions(spec, obs).equal(torch::tensor({{true, true, true, true}, {false, true, true, false}})));
  spec.action_choices = {1, 3};  // number by number
  EXPECT_TRUE(legal_actions(spec, obs)[1].equal(torch::tensor({true, true, true, false})));
}

// A policy and a value from the arm alone.
class ArmNet : public Model {
 public:
  ArmNet() {
    weight_ = register_parameter("weight", torch::randn({4, 3}));
    head_ = register_module("head", torch::nn::Linear(3, 1));
  }
  PolicyValue forward(const at::Tensor& obs) override {
    const at::Tensor arm = part_view(obs, find_part(robot(), "arm"));
    return {at::linear(arm, weight_), head_->forward(arm).squeeze(-1)};
  }
  int64_t preferred_rows() const override { return 77; }

 private:
  at::Tensor weight_;
  torch::nn::Linear head_{nullptr};
};

TEST(MaskedModel, ForbidsAndIsElseTheModelInside) {
  const auto inner = std::make_shared<ArmNet>();
  MaskedModel model(inner, robot());
  std::vector<std::string> names;
  for (const auto& item : model.named_parameters()) names.push_back(item.key());
  EXPECT_EQ(names, (std::vector<std::string>{"weight", "head.weight", "head.bias"}));
  EXPECT_EQ(model.preferred_rows(), 77);
  const at::Tensor obs = two_rows();
  const PolicyValue plain = inner->forward(obs), masked = model.forward(obs);
  EXPECT_TRUE(masked.logits[0].equal(plain.logits[0]));
  EXPECT_EQ(masked.logits[1][0].item<float>(), -1e9f);
  EXPECT_EQ(masked.logits[1][1].item<float>(), plain.logits[1][1].item<float>());
  EXPECT_TRUE(masked.value.equal(plain.value));

  const auto recording = model.record(obs);
  EXPECT_TRUE(recording->output().logits.equal(masked.logits.detach()));
  recording->backward(torch::ones({2, 4}), torch::zeros({2}));
  // Row 1 reaches logits 1 and 2 alone; row 0 has an arm of zeros.
  const at::Tensor gradient = model.named_parameters()["weight"].grad(), arm = torch::tensor({0.5f, -1.5f, 2.0f});
  EXPECT_TRUE(gradient.equal(torch::stack({torch::zeros(3), arm, arm, torch::zeros(3)})));
  // Weights set on it are the inner model's.
  model.set_weights(MaskedModel(std::make_shared<ArmNet>(), robot()).get_weights());
  EXPECT_FALSE(inner->forward(obs).logits.equal(plain.logits));
}

}  // namespace
}  // namespace parl
