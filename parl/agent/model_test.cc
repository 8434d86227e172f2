#include "parl/agent/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parl/agent/batch.h"
#include "parl/agent/categorical.h"
#include "parl/agent/nonfinite.h"
#include "parl/agent/tensor_array.h"

namespace parl {
namespace {

struct Net : Model {
  torch::nn::Linear trunk{4, 8}, policy{8, 3}, value{8, 1};
  torch::nn::BatchNorm1d norm{8};
  Net() {
    register_module("trunk", trunk);
    register_module("norm", norm);
    register_module("policy", policy);
    register_module("value", value);
  }
  PolicyValue forward(const at::Tensor& obs) override {
    auto h = norm(trunk(obs).relu());
    return {policy(h), value(h).squeeze(-1)};
  }
};

struct Other : Model {
  torch::nn::Linear trunk{4, 9};
  Other() { register_module("trunk", trunk); }
  PolicyValue forward(const at::Tensor& obs) override { return {trunk(obs), obs}; }
};

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(Model, WeightsTravelWithBuffers) {
  torch::manual_seed(1);
  Net a, b;
  a.forward(torch::randn({16, 4}));  // moves the running statistics
  b.set_weights(a.get_weights());
  a.eval(), b.eval();
  const at::Tensor obs = torch::randn({5, 4});
  EXPECT_TRUE(at::equal(a.forward(obs).logits, b.forward(obs).logits));
  EXPECT_EQ(a.get_weights().entries.front().name, "trunk.weight");
  EXPECT_EQ(a.parameter_count(), 4 * 8 + 8 + 16 + 27 + 9);
}

TEST(Model, SetWeightsChecksBeforeItWrites) {
  Net net;
  const Weights good = net.get_weights();
  Weights bad = good;
  bad.entries[1].array.data<float>()[0] += 1;
  bad.entries[2].name = "trunk.weigth";
  EXPECT_THAT(message([&] { net.set_weights(bad); }), testing::HasSubstr("trunk.weight"));
  bad = good;
  bad.entries.pop_back();
  EXPECT_THAT(message([&] { net.set_weights(bad); }), testing::HasSubstr("number of weights"));
  bad = good;
  bad.entries[0].array = Array::of<float>({8, 5});
  bad.entries[1].array.data<float>()[0] += 1;
  EXPECT_THAT(message([&] { net.set_weights(bad); }), testing::HasSubstr("[8, 5]"));
  EXPECT_TRUE(net.get_weights().entries[1].array == good.entries[1].array);
}

TEST(Model, SyncWeights) {
  torch::manual_seed(2);
  Net a, b, c;
  const at::Tensor wa = a.trunk->weight.detach().clone(), wb = b.trunk->weight.detach().clone();
  a.sync_weights_to(b, 0.9);
  EXPECT_TRUE(at::allclose(b.trunk->weight, 0.9 * wb + 0.1 * wa));
  a.sync_weights_to(b, 0.9);
  EXPECT_TRUE(at::allclose(b.trunk->weight, 0.81 * wb + 0.19 * wa));
  a.sync_weights_to(c);
  EXPECT_TRUE(at::equal(c.trunk->weight, wa));
  EXPECT_TRUE(at::equal(a.trunk->weight, wa));
  Other other;
  EXPECT_THROW(a.sync_weights_to(a), Error);
  EXPECT_THROW(a.sync_weights_to(b, 1.5), Error);
  EXPECT_THROW(a.sync_weights_to(other), Error);
}

TEST(Model, RecordByAutograd) {
  Net net;
  torch::NoGradGuard no_grad;  // record() records all the same
  auto recording = net.record(torch::randn({6, 4}));
  recording->backward(torch::ones({6, 3}), torch::ones({6}));
  EXPECT_TRUE(at::allclose(net.value->bias.grad(), torch::full({1}, 6.0f)));
}

TEST(TensorArray, RoundTrip) {
  for (at::ScalarType type : {at::kFloat, at::kByte, at::kLong, at::kBool, at::kDouble}) {
    const at::Tensor tensor = torch::randint(0, 2, {3, 4}, at::kLong).to(type).t();
    EXPECT_TRUE(at::equal(to_tensor(to_array(tensor)), tensor)) << type;
  }
  EXPECT_THROW(to_array(torch::zeros({1}, at::kHalf)), Error);
  EXPECT_EQ(to_tensor(to_array(torch::empty({0, 3}))).sizes(), (std::vector<int64_t>{0, 3}));
}

TEST(Categorical, InverseCdf) {
  const float p[] = {0.1f, 0.0f, 0.6f, 0.3f};
  float logits[4];
  for (int i = 0; i < 4; ++i) logits[i] = p[i] > 0 ? std::log(p[i]) + 5 : -200;
  for (auto [u, action] :
       {std::pair{0.0f, 0}, {0.0999f, 0}, {0.1001f, 2}, {0.6999f, 2}, {0.7001f, 3}, {0.99999994f, 3}}) {
    EXPECT_EQ(sample_categorical(logits, 4, u), action) << u;
  }
  EXPECT_EQ(greedy_action(logits, 4), 2);
  int64_t counts[4] = {};
  for (int i = 0; i < 10000; ++i) ++counts[sample_categorical(logits, 4, (i + 0.5f) / 10000)];
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[0], 1000, 2);
  EXPECT_NEAR(counts[2], 6000, 2);
}

TEST(Categorical, DependsOnlyOnItsOwnRow) {
  const at::Tensor logits = torch::randn({8, 5}), u = torch::rand({8});
  const at::Tensor all = sample_categorical(logits, u);
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(sample_categorical(logits.narrow(0, i, 1).contiguous(), u.narrow(0, i, 1)).item<int64_t>(),
              all[i].item<int64_t>());
  }
  at::Tensor bad = logits.clone();
  bad[2][1] = std::nanf("");
  EXPECT_THROW(sample_categorical(bad, u), NonFiniteError);
}

TEST(Categorical, LogSoftmaxIsExact) {
  const float logits[] = {100, 0, -100};
  float out[3];
  log_softmax(logits, 3, out);
  EXPECT_FLOAT_EQ(out[0], 0);
  EXPECT_FLOAT_EQ(out[1], -100);  // not floored
  EXPECT_FLOAT_EQ(out[2], -200);
}

Batch make_batch() {
  Batch batch;
  batch.obs = torch::arange(3 * 5 * 2, at::kFloat).view({3, 5, 2});
  batch.action = torch::arange(12).view({3, 4});
  batch.behaviour_logits = torch::randn({3, 4, 6});
  batch.reward = torch::randn({3, 4});
  batch.terminated = torch::zeros({3, 4}, at::kBool);
  batch.truncated = torch::zeros({3, 4}, at::kBool);
  for (int64_t i : {1, 3, 6, 11}) batch.truncated.view(-1)[i] = true;
  batch.final_index = torch::tensor({1, 3, 6, 11});
  batch.final_obs = torch::tensor({{1., 1.}, {3., 3.}, {6., 6.}, {11., 11.}}, at::kFloat);
  batch.version = torch::tensor({4, 5, 6});
  return batch;
}

TEST(Batch, SliceAndSelectRebaseFinals) {
  const Batch batch = make_batch();
  batch.check();
  const Batch slice = batch.slice(1, 2);
  slice.check();
  EXPECT_TRUE(at::equal(slice.final_index, torch::tensor({2, 7})));
  EXPECT_TRUE(at::equal(slice.final_obs.select(1, 0), torch::tensor({6.f, 11.f})));
  EXPECT_EQ(slice.reward.const_data_ptr<float>(), batch.reward.const_data_ptr<float>() + 4);  // a view
  const Batch selected = batch.select(torch::tensor({2, 0}));
  selected.check();
  EXPECT_TRUE(at::equal(selected.final_index, torch::tensor({3, 5, 7})));
  EXPECT_TRUE(at::equal(selected.final_obs.select(1, 0), torch::tensor({11.f, 1.f, 3.f})));
  EXPECT_TRUE(at::equal(selected.version, torch::tensor({6, 4})));
  EXPECT_TRUE(at::equal(selected.obs[0], batch.obs[2]));
}

TEST(Batch, CheckNamesTheTensor) {
  auto broken = [](const std::function<void(Batch&)>& change) {
    Batch batch = make_batch();
    change(batch);
    return message([&] { batch.check(); });
  };
  EXPECT_THAT(broken([](Batch& b) { b.action = b.action.to(at::kInt); }), testing::HasSubstr("action"));
  EXPECT_THAT(broken([](Batch& b) { b.obs = b.obs.narrow(1, 0, 4); }), testing::HasSubstr("T + 1"));
  EXPECT_THAT(broken([](Batch& b) { b.truncated = at::Tensor(); }), testing::HasSubstr("truncated"));
  EXPECT_THAT(broken([](Batch& b) { b.terminated.view(-1)[3] = true; }), testing::HasSubstr("final_obs"));
}

}  // namespace
}  // namespace parl
