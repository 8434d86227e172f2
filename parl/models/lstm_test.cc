#include "parl/models/lstm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/models/cnn.h"
#include "parl/models/registry.h"

namespace parl {
namespace {

const ModelSpec kVector{{5}, DType::kF32, 3, 0};
const ModelSpec kImage{{42, 42, 4}, DType::kU8, 6, 0};

void expect_close(const at::Tensor& a, const at::Tensor& b, const std::string& what, double tolerance = 2e-5) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  const double scale = b.abs().max().item<double>() + 1e-6, error = (a - b).abs().max().item<double>();
  EXPECT_LT(error / scale, tolerance) << what << ": " << error << " of " << scale;
}

TEST(Lstm, EqualsPyTorch) {
  const Weights file =
      load_safetensors(std::string(PARL_SOURCE_DIR) + "/parl/models/testdata/lstm_reference.safetensors");
  const auto get = [&](const std::string& name) { return to_tensor(get_entry(file, name)); };
  const at::Tensor x = get("x").requires_grad_(), weight_ih = get("weight_ih").requires_grad_(),
                   weight_hh = get("weight_hh").requires_grad_(), bias = get("bias").requires_grad_();
  const auto [h, c] = lstm_steps(at::linear(x, weight_ih, bias), get("state"), get("reset"), weight_hh);
  (h * get("d_h")).sum().backward();
  expect_close(h.detach(), get("h"), "h");
  expect_close(c.detach(), get("c"), "c");
  expect_close(x.grad(), get("d_x"), "input");
  expect_close(weight_ih.grad(), get("d_weight_ih"), "weight_ih");
  expect_close(weight_hh.grad(), get("d_weight_hh"), "weight_hh");
  expect_close(bias.grad(), get("d_bias"), "bias");
}

Sequence random_sequence(const ModelSpec& spec, int64_t unrolls, int64_t length, int64_t state_size) {
  std::vector<int64_t> shape = spec.obs_shape;
  shape.insert(shape.begin(), {unrolls, length});
  Sequence in;
  in.obs = spec.obs_dtype == DType::kU8 ? torch::randint(0, 256, shape, at::kByte) : torch::randn(shape);
  in.state = torch::randn({unrolls, state_size}) * 0.5;
  in.reset = torch::rand({unrolls, length}) < 0.2;
  in.reset[0][length - 1] = true;
  in.keep = torch::tensor({int64_t{1}, length - 2, unrolls * length - 1});
  return in;
}

std::map<std::string, at::Tensor> take_gradients(Model& model) {
  std::map<std::string, at::Tensor> out;
  for (const auto& item : model.named_parameters()) {
    out[item.key()] = item.value().grad().clone();
    item.value().mutable_grad() = at::Tensor();
  }
  return out;
}

// The pass over a whole sequence is that of step() after step() under autograd, in outputs, memories and gradients.
TEST(LstmModel, SequencesEqualSteps) {
  ModelSpec continuous{{5}, DType::kF32, 0, 2};
  continuous.action_low = continuous.action_high = {0, 0};
  const ModelSpec small{{20, 20, 2}, DType::kU8, 3, 0};
  for (const auto& [name, spec] : {std::pair<std::string, ModelSpec>{"mlp_lstm", kVector},
                                   {"mlp_lstm", continuous},
                                   {"atari42_lstm", kImage},
                                   {"minatar_lstm", small},
                                   {"impala_deep_lstm", small}}) {
    SCOPED_TRACE(name);
    torch::manual_seed(5);
    const auto model = builtin_models().make(name, spec);
    auto& lstm = *model->recurrent();
    const Sequence in = random_sequence(spec, 3, 7, lstm.state_size());
    const SequenceOutput expected = lstm.RecurrentModel::sequence(in);
    EXPECT_EQ(model->is_gaussian(), spec.action_size > 0);
    const at::Tensor d_logits = torch::randn_like(expected.output.logits), d_value = torch::randn({21});
    torch::autograd::backward({expected.output.logits, expected.output.value}, {d_logits, d_value});
    auto gradients = take_gradients(*model);

    SequenceRecording recorded = lstm.record_sequence(in);
    expect_close(recorded.recording->output().logits.detach(), expected.output.logits.detach(), "logits");
    expect_close(recorded.recording->output().value.detach(), expected.output.value.detach(), "value");
    expect_close(recorded.kept, expected.kept, "memory");
    EXPECT_FALSE(recorded.kept.requires_grad());
    recorded.recording->backward(d_logits, d_value);
    for (const auto& [key, gradient] : take_gradients(*model)) expect_close(gradient, gradients.at(key), key, 1e-4);

    const StepOutput step = lstm.step(in.obs.select(1, 0), in.state);  // under autograd
    const torch::NoGradGuard no_grad;
    expect_close(lstm.sequence(in).output.logits, expected.output.logits, "logits without gradient");
    const StepOutput acted = lstm.step(in.obs.select(1, 0), in.state);
    expect_close(acted.state, step.state.detach(), "memory of acting", 1e-6);
    expect_close(acted.output.logits, step.output.logits.detach(), "logits of acting", 1e-6);
    expect_close(acted.output.value, step.output.value.detach(), "value of acting", 1e-6);
  }
}

TEST(LstmModel, PiecesOfTheTrunkAddUp) {  // 300 observations, 288 at a time
  torch::manual_seed(5);
  const auto model = builtin_models().make("atari42_lstm", kImage);
  auto& lstm = *model->recurrent();
  const Sequence in = random_sequence(kImage, 20, 15, lstm.state_size());
  const at::Tensor d_logits = torch::randn({300, 6}), d_value = torch::randn({300});
  lstm.record_sequence(in).recording->backward(d_logits, d_value);
  const auto whole = take_gradients(*model);
  for (int64_t b = 0; b < 20; b += 10) {
    Sequence half = in;
    half.obs = in.obs.narrow(0, b, 10), half.state = in.state.narrow(0, b, 10), half.reset = in.reset.narrow(0, b, 10);
    half.keep = at::Tensor();
    lstm.record_sequence(half).recording->backward(d_logits.narrow(0, b * 15, 150), d_value.narrow(0, b * 15, 150));
  }
  for (const auto& [key, gradient] : take_gradients(*model)) expect_close(gradient, whole.at(key), key, 1e-4);
}

TEST(Cnn, HeadlessPassesEqualTorch) {
  torch::manual_seed(2);
  Cnn trunk(trunk_spec(kImage), atari42_layers());
  const at::Tensor obs = torch::randint(0, 256, {7, 42, 42, 4}, at::kByte);
  if (!trunk.is_fused_for(obs)) GTEST_SKIP() << "no AVX-512 in this build";
  const PolicyValue expected = trunk.forward_with_torch(obs);
  EXPECT_FALSE(expected.value.defined());
  EXPECT_EQ(expected.logits.size(1), 256);
  at::Tensor gradient = torch::randn({7, 256});
  gradient[3].zero_();
  torch::autograd::backward({expected.logits}, {gradient});
  auto gradients = take_gradients(trunk);
  const auto recording = trunk.record(obs);
  expect_close(recording->output().logits, expected.logits.detach(), "features");
  recording->backward(gradient, at::Tensor());
  for (const auto& [key, value] : take_gradients(trunk)) expect_close(value, gradients.at(key), key);
}

TEST(LstmModel, BeginsNearlyUniformAndRemembers) {
  torch::manual_seed(1);
  const auto model = builtin_models().make("mlp_lstm", kVector);
  std::vector<std::string> names;
  for (const auto& item : model->named_parameters()) names.push_back(item.key());
  EXPECT_THAT(names, testing::UnorderedElementsAre("trunk.layer1.weight", "trunk.layer1.bias", "trunk.layer2.weight",
                                                   "trunk.layer2.bias", "lstm.weight_ih", "lstm.weight_hh", "lstm.bias",
                                                   "policy.weight", "policy.bias", "value.weight", "value.bias"));
  auto& lstm = *model->recurrent();
  const torch::NoGradGuard no_grad;
  const StepOutput out = lstm.step(torch::randn({4, 5}), lstm.initial_state(4));
  EXPECT_LT(at::softmax(out.output.logits, 1).sub(1.0 / 3).abs().max().item<double>(), 0.02);
  EXPECT_GT(out.state.abs().max().item<double>(), 0.01);
  EXPECT_EQ(out.state.sizes(), (std::vector<int64_t>{4, 128}));
}

TEST(LstmModel, ErrorsSayWhatToDo) {
  const auto model = builtin_models().make("mlp_lstm", kVector);
  EXPECT_THAT(error_of([&] { model->forward(torch::randn({2, 5})); }), testing::HasSubstr("memory"));
  EXPECT_THAT(error_of([&] {
                model->recurrent()->step(torch::randn({2, 5}), torch::zeros({2, 7}));
              }),
              testing::HasSubstr("[2, 128]"));
}

}  // namespace
}  // namespace parl
