#include "parl/agent/optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "parl/agent/safetensors.h"
#include "parl/agent/schedule.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"

namespace parl {
namespace {

struct Net : Model {
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(3, 5, 3)};
  torch::nn::Linear policy{20, 3}, value{20, 1};
  Net() {
    conv->weight.set_data(conv->weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
    register_module("conv", conv);
    register_module("policy", policy);
    register_module("value", value);
  }
  PolicyValue forward(const at::Tensor& obs) override {
    auto h = conv(obs).relu().flatten(1);
    return {policy(h), value(h).squeeze(-1)};
  }
};

void set_gradients(Model& model, uint64_t seed) {
  torch::manual_seed(seed);
  for (at::Tensor& p : model.parameters()) {
    if (!p.grad().defined()) p.mutable_grad() = torch::zeros_like(p);
    p.mutable_grad().copy_(torch::randn(p.sizes()));
  }
}

template <typename TorchOptimizer>
void expect_equal_to_torch(TorchOptimizer&& reference, Net& theirs, const OptimizerConfig& config, double lr) {
  Net mine;
  mine.set_weights(theirs.get_weights());
  FlatParameters flat(mine);
  FlatOptimizer optimizer(flat, config);
  for (uint64_t step = 0; step < 5; ++step) {
    set_gradients(theirs, step);
    set_gradients(mine, step);
    reference.step();
    optimizer.step(lr);
    for (const auto& item : theirs.named_parameters()) {
      EXPECT_TRUE(at::allclose(mine.named_parameters()[item.key()], item.value(), 1e-5, 1e-6)) << item.key() << step;
    }
  }
}

TEST(FlatOptimizer, RmspropEqualsTorch) {
  for (double eps : {0.01, 1e-5}) {
    Net net;
    torch::optim::RMSprop reference(net.parameters(), torch::optim::RMSpropOptions(6e-3).alpha(0.99).eps(eps));
    expect_equal_to_torch(reference, net, {"rmsprop", eps, 0.99, 0, 0}, 6e-3);
  }
}

TEST(FlatOptimizer, AdamEqualsTorch) {
  for (double eps : {1e-8, 1e-3}) {
    Net net;
    torch::optim::Adam reference(net.parameters(), torch::optim::AdamOptions(3e-3).betas({0.8, 0.99}).eps(eps));
    expect_equal_to_torch(reference, net, {"adam", eps, 0, 0.8, 0.99}, 3e-3);
  }
}

// libtorch has no RAdam: the reference's own lines (scripts/reference_dqn.py wrote the numbers with torch.optim.RAdam).
TEST(FlatOptimizer, RadamEqualsPyTorch) {
  const Weights reference =
      load_safetensors(std::string(PARL_SOURCE_DIR) + "/parl/agent/testdata/radam_reference.safetensors");
  struct Line : Model {
    at::Tensor w;
    Line() { w = register_parameter("w", torch::zeros({4})); }
    PolicyValue forward(const at::Tensor&) override { return {}; }
  } line;
  const at::Tensor gradients = to_tensor(get_entry(reference, "gradients")),
                   after = to_tensor(get_entry(reference, "after"));
  FlatParameters flat(line);
  FlatOptimizer optimizer(flat, {"radam", 1e-5, 0, 0.9, 0.999});
  ASSERT_EQ(gradients.size(0), 12);  // six of each kind
  for (int64_t step = 0; step < 12; ++step) {
    line.w.mutable_grad().copy_(gradients[step]);
    optimizer.step(0.02);
    EXPECT_TRUE(at::allclose(line.w.detach(), after[step], 1e-5, 1e-6)) << step;
  }
}

TEST(FlatOptimizer, ScaleIsThatOfTheGradient) {
  Net a, b;
  b.set_weights(a.get_weights());
  FlatParameters fa(a), fb(b);
  FlatOptimizer oa(fa, {}), ob(fb, {});
  set_gradients(a, 1), set_gradients(b, 1);
  fb.gradients().mul_(4);
  oa.step(0.1), ob.step(0.1, 0.25);
  EXPECT_TRUE(at::allclose(fa.values(), fb.values(), 1e-6, 1e-7));
}

TEST(FlatOptimizer, StateContinuesToTheBit) {
  for (const char* kind : {"rmsprop", "adam", "radam"}) {
    Net a, b;
    FlatParameters fa(a), fb(b);
    FlatOptimizer oa(fa, {kind}), ob(fb, {kind});
    set_gradients(a, 1);
    oa.step(0.1);
    Weights state;
    oa.append_state(state);
    b.set_weights(a.get_weights());
    ob.set_state(state);
    set_gradients(a, 2), set_gradients(b, 2);
    oa.step(0.1), ob.step(0.1);
    EXPECT_TRUE(at::equal(fa.values(), fb.values())) << kind;
    EXPECT_EQ(ob.steps(), 2);
    state.entries.pop_back();
    EXPECT_THROW(ob.set_state(state), Error);
  }
  Net net;
  FlatParameters flat(net);
  EXPECT_THROW(FlatOptimizer(flat, {"adamw"}), Error);
}

TEST(FlatParameters, ViewsKeepValuesAndLayout) {
  Net net;
  const Weights before = net.get_weights();
  FlatParameters flat(net);
  for (size_t i = 0; i < before.entries.size(); ++i) {
    EXPECT_TRUE(net.get_weights().entries[i].array == before.entries[i].array);
  }
  EXPECT_TRUE(net.conv->weight.is_contiguous(at::MemoryFormat::ChannelsLast));
  const PolicyValue out = net.forward(torch::randn({2, 3, 4, 4}));
  (out.logits.sum() + out.value.sum()).backward();  // autograd adds in place
  double squares = 0;
  for (const at::Tensor& p : net.parameters()) squares += p.grad().pow(2).sum().item<double>();
  EXPECT_GT(squares, 0);
  EXPECT_NEAR(flat.gradient_norm(), std::sqrt(squares), 1e-4 * std::sqrt(squares));
  flat.zero_gradients();
  EXPECT_EQ(net.conv->weight.grad().abs().sum().item<double>(), 0);

  Net replica;
  FlatParameters shared(replica, flat);
  flat.values().mul_(2);
  EXPECT_TRUE(at::equal(replica.conv->weight, net.conv->weight));
  shared.gradients().fill_(1);
  EXPECT_EQ(flat.gradient_norm(), 0);
}

TEST(FlatParameters, FindsWhatIsNotFinite) {
  Net net;
  FlatParameters flat(net);
  EXPECT_EQ(flat.find_nonfinite(false), "");
  net.value->weight.mutable_grad()[0][3] = std::nanf("");
  EXPECT_EQ(flat.find_nonfinite(true), "value.weight");
  EXPECT_TRUE(std::isnan(flat.gradient_norm()));
  torch::NoGradGuard no_grad;
  net.conv->bias[1] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(flat.find_nonfinite(false), "conv.bias");
}

TEST(Schedule, SaysWhichPointIsOutside) {
  Schedule("0:1,100:0").check_within(0, 1, "exploration");
  Schedule("0.5").check_within(0, 1, "exploration");
  for (const char* bad : {"1.5", "0:1,100:-0.25,200:0", "step 0:0,3:2"}) {
    EXPECT_THROW(Schedule(bad).check_within(0, 1, "exploration"), Error) << bad;
  }
  try {
    Schedule("0:1,100:-0.25").check_within(0, 1, "exploration");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("exploration has -0.25 at step 100, expected 0..1"), std::string::npos)
        << error.what();
  }
}

TEST(Schedule, ConstantLinearAndSteps) {
  EXPECT_DOUBLE_EQ(Schedule("6e-4").at(1e9), 6e-4);
  const Schedule linear("100:1,200:3,400:0");
  for (auto [step, value] : {std::pair{0.0, 1.0}, {100, 1}, {150, 2}, {200, 3}, {300, 1.5}, {400, 0}, {1e6, 0}}) {
    EXPECT_DOUBLE_EQ(linear.at(step), value) << step;
  }
  const Schedule steps("step 0:.1,3:.2,7:.3");  // PARL's own test
  const double expected[] = {.1, .1, .1, .2, .2, .2, .2, .3, .3, .3};
  for (int i = 0; i < 10; ++i) EXPECT_DOUBLE_EQ(steps.at(i), expected[i]);
  for (const char* bad :
       {"", "a", "101%:1", "50%:1,20%:2", "0:1,0:2", "5:1,3:2", "0:1,", "1:", "step", "0:1;2:3", "nan"}) {
    EXPECT_THROW(Schedule{std::string(bad)}, Error) << bad;
  }
}

TEST(Schedule, SharesOfARun) {
  EXPECT_EQ(resolve_shares("0:6e-4,50%:1e-4,100%:0", 3e6), "0:6e-4,1500000:1e-4,3000000:0");
  EXPECT_EQ(resolve_shares("step 10%:1,12.5%:2", 1000), "step 100:1,125:2");
  EXPECT_EQ(resolve_shares("0:1,7:2", 1000), "0:1,7:2");
  EXPECT_EQ(resolve_shares("text", 1000), "text");
  EXPECT_DOUBLE_EQ(Schedule(resolve_shares("0:1,100%:0", 400)).at(100), 0.75);
  const Schedule unresolved("0:1,100%:0");
  EXPECT_THROW(unresolved.at(1), Error);
  EXPECT_DOUBLE_EQ(unresolved.at(0), 1);  // the same for any run
}

}  // namespace
}  // namespace parl
