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

// A memory of the arm.
struct ArmGru : RecurrentModel {
  torch::nn::GRUCell cell{3, 5};
  torch::nn::Linear policy{5, 4}, value{5, 1};
  at::Tensor offset;
  ArmGru() {
    offset = register_parameter("offset", torch::randn({4}));
    register_module("cell", cell);
    register_module("policy", policy);
    register_module("value", value);
  }
  int64_t state_size() const override { return 5; }
  StepOutput step(const at::Tensor& obs, const at::Tensor& state) override {
    const at::Tensor h = cell(part_view(obs, find_part(robot(), "arm")), state);
    return {{policy(h) + offset, value(h).squeeze(-1)}, h};
  }
};

// Two unrolls of three observations, of which only row 1 * 3 + 1 forbids nothing; the last one forbids everything.
constexpr bool kLegal[6][4] = {{true, false, true, true},  {false, false, true, false}, {true, true, false, false},
                               {false, true, false, true}, {true, true, true, true},    {true, true, true, true}};

Sequence six_rows() {
  Sequence in;
  in.obs = torch::zeros({2, 4, 48}, at::kByte).narrow(1, 0, 3);  // as the learner's, which leaves out the last
  const at::Tensor arms = torch::randn({6, 3});
  for (int64_t row = 0; row < 6; ++row) {
    at::Tensor one = torch::zeros({1, 48}, at::kByte);
    const float* arm = arms.const_data_ptr<float>() + row * 3;
    put<float>(one, 0, 4, {arm[0], arm[1], arm[2]});
    for (int64_t a = 0; a < 4; ++a) one[0][40 + a] = row < 5 && kLegal[row][a];
    in.obs[row / 3][row % 3].copy_(one[0]);
  }
  in.state = torch::randn({2, 5});
  in.reset = torch::tensor({{false, true, false}, {false, false, true}});
  in.keep = torch::tensor({int64_t{0}, int64_t{4}});
  return in;
}

at::Tensor by_hand(const at::Tensor& logits) {
  const at::Tensor legal = torch::tensor(at::ArrayRef<bool>(&kLegal[0][0], 24)).view({6, 4});
  return torch::where(legal, logits, torch::full({}, -1e9));
}

TEST(MaskedModel, ANetworkWithAMemoryKeepsItAndIsMasked) {
  torch::manual_seed(4);
  const auto inner = std::make_shared<ArmGru>();
  const std::shared_ptr<Model> model = masked(inner, robot());
  RecurrentModel* recurrent = model->recurrent();
  ASSERT_NE(recurrent, nullptr);
  EXPECT_EQ(recurrent->state_size(), 5);
  const Sequence in = six_rows();
  // One step: the middle observations.
  const at::Tensor now = in.obs.select(1, 1);
  const StepOutput plain = inner->step(now, in.state), step = recurrent->step(now, in.state);
  EXPECT_TRUE(step.state.equal(plain.state));
  EXPECT_TRUE(step.output.value.equal(plain.output.value));
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t a = 0; a < 4; ++a) {
      EXPECT_EQ(step.output.logits[b][a].item<float>(),
                kLegal[b * 3 + 1][a] ? plain.output.logits[b][a].item<float>() : -1e9f);
    }
  }
  // A sequence, and its gradient.
  const SequenceOutput whole = inner->sequence(in), seen = recurrent->sequence(in);
  EXPECT_TRUE(seen.output.logits.equal(by_hand(whole.output.logits)));
  EXPECT_TRUE(seen.output.value.equal(whole.output.value));
  EXPECT_TRUE(seen.kept.equal(whole.kept));
  const at::Tensor weight = torch::randn({6, 4}), of_value = torch::randn({6});
  ((by_hand(whole.output.logits) * weight).sum() + (whole.output.value * of_value).sum()).backward();
  std::vector<at::Tensor> expected;
  for (at::Tensor& p : inner->parameters()) {
    expected.push_back(p.grad().clone());
    p.mutable_grad() = at::Tensor();
  }
  SequenceRecording recorded = recurrent->record_sequence(in);
  EXPECT_TRUE(recorded.recording->output().logits.equal(by_hand(whole.output.logits).detach()));
  EXPECT_TRUE(recorded.kept.equal(whole.kept));
  recorded.recording->backward(weight, of_value);
  const auto parameters = model->parameters();
  ASSERT_EQ(parameters.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::allclose(parameters[i].grad(), expected[i])) << i;
  // Weights have the inner model's names and are its own.
  EXPECT_EQ(model->get_weights().entries[0].name, "offset");
  model->set_weights(masked(std::make_shared<ArmGru>(), robot())->get_weights());
  EXPECT_FALSE(inner->step(now, in.state).output.value.equal(plain.output.value));
  EXPECT_THROW(MaskedModel(inner, robot()), Error);
  EXPECT_THROW(MaskedRecurrent(std::make_shared<ArmNet>(), robot()), Error);
}

}  // namespace
}  // namespace parl
