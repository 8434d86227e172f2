#include "parl/models/relu_mlp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/models/registry.h"

namespace parl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelSpec continuous(int64_t obs, int64_t actions) {
  ModelSpec spec{{obs}, DType::kF32, 0, actions};
  spec.action_low.assign(static_cast<size_t>(actions), -1);
  spec.action_high.assign(static_cast<size_t>(actions), 1);
  return spec;
}

struct Case {
  int64_t obs, actions, rows;
  std::vector<int64_t> hidden;
};

std::vector<Case> cases() {
  return {{17, 6, 256, {256, 256}}, {3, 1, 1, {64, 64}}, {5, 2, 7, {8}},          {16, 16, 25, {48, 33}},
          {376, 17, 13, {256, 64}}, {4, 3, 300, {31}},   {11, 3, 2, {16, 16, 16}}};
}

void expect_close(const at::Tensor& a, const at::Tensor& b, const std::string& what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  const double scale = b.abs().max().item<double>() + 1e-6, error = (a - b).abs().max().item<double>();
  EXPECT_LT(error / scale, 2e-5) << what << ": " << error << " of " << scale;
}

std::vector<at::Tensor> take_gradients(torch::nn::Module& module) {
  std::vector<at::Tensor> out;
  for (at::Tensor& p : module.parameters()) {
    out.push_back(p.grad().clone());
    p.grad().zero_();
  }
  return out;
}

TEST(ReluMlp, HandWrittenPassesEqualTorch) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.rows);
    torch::manual_seed(3);
    ReluMlp model(continuous(c.obs, c.actions), c.hidden);
    const at::Tensor obs = torch::randn({c.rows, c.obs});
    if (!model.is_fused_for(obs)) GTEST_SKIP() << "no AVX-512 in this build";
    const PolicyValue expected = model.forward_with_torch(obs);
    const at::Tensor d_logits = torch::randn_like(expected.logits), d_value = torch::randn({c.rows});
    torch::autograd::backward({expected.logits, expected.value}, {d_logits, d_value});
    const std::vector<at::Tensor> gradients = take_gradients(model);

    const auto other = model.record(torch::randn({2, c.obs}));  // two passes at once do not share memory
    const auto recording = model.record(obs);
    const auto third = model.record(torch::randn({5, c.obs}));
    expect_close(recording->output().logits, expected.logits.detach(), "logits");
    expect_close(recording->output().value, expected.value.detach(), "value");
    recording->backward(d_logits, d_value);
    size_t i = 0;
    for (const auto& item : model.named_parameters()) expect_close(item.value().grad(), gradients[i++], item.key());
    model.record(obs)->backward(d_logits, d_value);  // gradients add up
    i = 0;
    for (const auto& item : model.named_parameters()) expect_close(item.value().grad(), 2 * gradients[i++], item.key());
  }
}

TEST(ReluMlp, OneRowIsTheSameBitsInAnyBatch) {
  torch::manual_seed(4);
  ReluMlp model(continuous(17, 6));
  const torch::NoGradGuard no_grad;
  const at::Tensor obs = torch::randn({61, 17});
  if (!model.is_fused_for(obs)) GTEST_SKIP() << "no AVX-512 in this build";
  const at::Tensor all = model.forward(obs).logits;
  for (const int64_t rows : {1, 2, 12, 13, 60}) {
    EXPECT_TRUE(model.forward(obs.narrow(0, 0, rows)).logits.equal(all.narrow(0, 0, rows))) << rows;
  }
}

TEST(ReluMlp, ReadsBytesAndDiscreteActions) {
  torch::manual_seed(4);
  ReluMlp model({{4, 3, 2}, DType::kU8, 5, 0}, {16});
  const at::Tensor obs = torch::randint(0, 256, {9, 4, 3, 2}, at::kByte);
  EXPECT_FALSE(model.is_gaussian());
  const PolicyValue out = model.record(obs)->output(), expected = model.forward_with_torch(obs);
  EXPECT_EQ(out.logits.sizes(), at::IntArrayRef({9, 5}));
  expect_close(out.logits.detach(), expected.logits.detach(), "logits");
  expect_close(model.forward(obs.to(at::kFloat) / 255).value.detach(), expected.value.detach(), "value");
}

TEST(MlpCritic, HandWrittenPassesEqualTorch) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.rows);
    torch::manual_seed(3);
    MlpCritic critic(continuous(c.obs, c.actions), c.hidden);
    const at::Tensor obs = torch::randn({c.rows, c.obs}), action = torch::rand({c.rows, c.actions}) * 2 - 1;
    if (!critic.is_fused_for(obs)) GTEST_SKIP() << "no AVX-512 in this build";
    const at::Tensor d_q = torch::randn({c.rows});
    critic.QModel::record(obs, action)->backward(d_q);  // autograd's
    const std::vector<at::Tensor> gradients = take_gradients(critic);
    const auto by_autograd = critic.QModel::record(obs, action);
    const at::Tensor d_action = by_autograd->action_gradient(d_q);
    for (const at::Tensor& zero : take_gradients(critic)) EXPECT_EQ(zero.abs().max().item<float>(), 0);

    const auto recording = critic.record(obs, action);
    expect_close(recording->output(), by_autograd->output().detach(), "q");
    expect_close(recording->action_gradient(d_q), d_action, "action");
    for (const at::Tensor& zero : take_gradients(critic)) EXPECT_EQ(zero.abs().max().item<float>(), 0);
    critic.record(obs, action)->backward(d_q);
    size_t i = 0;
    for (const auto& item : critic.named_parameters()) expect_close(item.value().grad(), gradients[i++], item.key());
  }
}

TEST(MlpCritic, RefusesWhatDoesNotFit) {
  EXPECT_THROW(MlpCritic({{4}, DType::kF32, 3, 0}), Error);
  MlpCritic critic(continuous(4, 2), {8});
  EXPECT_ANY_THROW(critic.record(torch::zeros({3, 4}), torch::zeros({3, 1})));
}

TEST(Critics, HaveNames) {
  ModelRegistry models = builtin_models();
  EXPECT_THAT(models.critic_names(), ElementsAre("dict", "mlp", "mlp256", "mlp64"));
  const ModelSpec spec = continuous(4, 2);
  const auto hidden = [&](const std::string& name, const std::string& model) {
    return models.critic_factory(name, model)(spec)->parameters()[0].size(0);
  };
  EXPECT_EQ(hidden("auto", "mlp64"), 64);
  EXPECT_EQ(hidden("auto", "nature"), 256);  // it has none of its own
  EXPECT_EQ(hidden("mlp64", "mlp256"), 64);
  EXPECT_THAT(error_of([&] { models.critic_factory("mpl64"); }), HasSubstr("mlp64"));
  models.add("mine", "", [](const ModelSpec& s) { return std::make_shared<ReluMlp>(s); });
  models.add_critic("mine", "",
                    [](const ModelSpec& s) { return std::make_shared<MlpCritic>(s, std::vector<int64_t>{7}); });
  EXPECT_EQ(hidden("auto", "mine"), 7);
}

}  // namespace
}  // namespace parl
