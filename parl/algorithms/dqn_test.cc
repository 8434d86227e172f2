#include "parl/algorithms/dqn.h"

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
#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/models/mlp.h"

namespace parl {
namespace {

const ModelSpec kSpec{{5}, DType::kF32, 3, 0};

std::shared_ptr<Model> make_mlp() { return std::make_shared<Mlp>(kSpec, std::vector<int64_t>{8}); }

Batch one_transition(const at::Tensor& obs, const at::Tensor& action, double reward, const std::string& end,
                     const at::Tensor& final_obs) {
  Batch b;
  b.obs = obs;
  b.action = action;
  b.behaviour_logits = torch::zeros({1, 1, 3});
  b.reward = torch::full({1, 1}, reward, at::kFloat);
  b.terminated = torch::full({1, 1}, end == "terminated", at::kBool);
  b.truncated = torch::full({1, 1}, end == "truncated", at::kBool);
  b.final_index = torch::zeros({end == "truncated" ? 1 : 0}, at::kLong);
  if (end == "truncated") b.final_obs = final_obs;
  return b;
}

TEST(Dqn, EqualsPyTorch) {
  SafetensorsMetadata metadata;
  const Weights reference =
      load_safetensors(std::string(PARL_SOURCE_DIR) + "/parl/algorithms/testdata/dqn_reference.safetensors", &metadata);
  const nlohmann::json cases = nlohmann::json::parse(metadata.at("cases"));
  ASSERT_EQ(cases.size(), 7u);
  for (const auto& [name, c] : cases.items()) {
    SCOPED_TRACE(name);
    const auto get = [&](const std::string& what) { return to_tensor(get_entry(reference, name + "/" + what)); };
    DqnConfig config;
    config.double_q = c["double"], config.dueling = c["dueling"], config.gamma = c["gamma"], config.lr = c["lr"];
    config.eps = c["eps"], config.max_grad_norm = c["max_grad_norm"];
    config.batch_size = 4, config.train_ratio = 4 * 5, config.target_updates = 2;  // five updates for one step
    config.learn_start = 0, config.replay_capacity = 4;
    auto model = make_mlp();
    Weights initial;
    for (const auto& item : model->named_parameters()) {
      initial.entries.push_back({item.key(), get_entry(reference, name + "/initial/" + item.key())});
    }
    model->set_weights(initial);
    Dqn dqn(model, config, make_mlp());
    const Batch batch = one_transition(get("obs"), get("action"), c["reward"], c["end"], get("final_obs"));
    for (int i = 0; i < 3; ++i) {  // not enough to sample from yet
      EXPECT_EQ(stat(dqn.learn(batch, 0), "updates"), 0);
    }
    const LearnStats stats = dqn.learn(batch, 0);
    ASSERT_EQ(stat(stats, "updates"), 5);
    EXPECT_NEAR(stat(stats, "loss"), get("loss").item<double>(), 2e-5);
    EXPECT_NEAR(stat(stats, "grad_norm"), get("grad_norm").item<double>(), 2e-5);
    for (const auto& item : model->named_parameters()) {
      EXPECT_TRUE(at::allclose(item.value(), get("after/" + item.key()), 1e-4, 1e-5)) << item.key();
    }
  }
}

TEST(Dqn, ActsEpsilonGreedilyFromTheWeights) {
  DqnConfig config;
  config.exploration = "0:1,1000:0.25";
  torch::manual_seed(2);
  Dqn learner(make_mlp(), config, make_mlp()), actor(make_mlp());
  EXPECT_EQ(learner.epsilon(), 1);
  const Batch batch = one_transition(torch::zeros({1, 2, 5}), torch::zeros({1, 1}, at::kLong), 0, "none", {});
  learner.learn(batch, 999);  // the schedule is at step 1,000 now
  actor.set_weights(learner.get_weights());
  EXPECT_FLOAT_EQ(static_cast<float>(actor.epsilon()), 0.25f);

  const at::Tensor obs = torch::randn({1, 5}).expand({1000, 5}).contiguous();
  const at::Tensor uniforms = torch::arange(1000).to(at::kFloat) / 1000;
  const ActOutput out = actor.sample(obs, uniforms);
  const int64_t greedy = actor.predict(obs).action[0].item<int64_t>();
  EXPECT_TRUE(out.action.narrow(0, 250, 750).eq(greedy).all().item<bool>());
  for (int64_t a = 0; a < 3; ++a) {  // each action has a third of the first quarter
    EXPECT_NEAR(out.action.narrow(0, 0, 250).eq(a).sum().item<double>(), 250.0 / 3, 1.01) << a;
  }
  actor.play_for_evaluation(true);
  EXPECT_EQ(actor.epsilon(), 0.001);
  const Weights weights = actor.get_weights();  // what acts in training stays
  EXPECT_EQ(get_entry(weights, "exploration/epsilon").data<float>()[0], 0.25f);
  actor.play_for_evaluation(false);
  EXPECT_FLOAT_EQ(static_cast<float>(actor.epsilon()), 0.25f);
}

TEST(Dqn, LearnsWhatIsOwedAndNoMore) {
  DqnConfig config;
  config.batch_size = 8, config.train_ratio = 3, config.learn_start = 10, config.replay_capacity = 100;
  torch::manual_seed(3);
  Dqn dqn(make_mlp(), config, make_mlp());
  const Batch batch = one_transition(torch::randn({1, 2, 5}), torch::zeros({1, 1}, at::kLong), 1, "none", {});
  double updates = 0;
  for (int64_t step = 0; step < 41; ++step) updates += stat(dqn.learn(batch, step), "updates");
  EXPECT_EQ(updates, std::floor(32 * 3 / 8.0));  // steps 9..40 count: after ten steps
}

TEST(Dqn, NamesWhatIsNotFinite) {
  DqnConfig config;
  config.batch_size = 1, config.learn_start = 0;
  torch::manual_seed(4);
  Dqn dqn(make_mlp(), config, make_mlp());
  const Weights before = dqn.get_weights();
  const Batch batch = one_transition(torch::randn({1, 2, 5}), torch::zeros({1, 1}, at::kLong),
                                     std::numeric_limits<double>::quiet_NaN(), "none", {});
  EXPECT_THROW(dqn.learn(batch, 0), NonFiniteError);
  EXPECT_TRUE(before.entries[0].array == dqn.get_weights().entries[0].array);
}

TEST(Explore, KnowsOfMasksOnlyWhereThereIsOne) {
  const at::Tensor low = torch::tensor({{-6e8f, -7e8f, -8e8f}}).expand({300, 3}).contiguous();  // as diverged as that
  const at::Tensor uniforms = torch::arange(300).to(at::kFloat) / 300;
  for (const bool masked : {false, true}) {
    at::Tensor action = torch::full({300}, 7, at::kLong);
    explore(action, uniforms, low, 1, masked);
    for (int64_t a = 0; a < 3; ++a) EXPECT_NEAR(action.eq(a).sum().item<double>(), 100, 1) << masked << " " << a;
  }
  at::Tensor some = low.clone();
  some.select(1, 1).fill_(2);
  at::Tensor action = torch::zeros({300}, at::kLong);
  explore(action, uniforms, some, 1, true);
  EXPECT_TRUE(action.eq(1).all().item<bool>());
  explore(action, uniforms, some, 1, false);  // two of them are merely bad
  EXPECT_NEAR(action.eq(0).sum().item<double>(), 100, 1);
}

TEST(Dqn, RefusesWhatCannotBe) {
  DqnConfig unbounded;
  unbounded.exploration = "0:1,1000:-0.1";
  EXPECT_THAT(error_of([&] { unbounded.check(); }), ::testing::HasSubstr("exploration has -0.1 at step 1000"));
  unbounded = {};
  unbounded.priority_beta = "0:0.4,100:4";
  EXPECT_THAT(error_of([&] { unbounded.check(); }), ::testing::HasSubstr("priority-beta has 4 at step 100"));
  DqnConfig config;
  config.replay_capacity = 8;
  EXPECT_THROW(Dqn(make_mlp(), config), Error);
  Dqn actor(make_mlp());
  const Batch batch = one_transition(torch::randn({1, 2, 5}), torch::zeros({1, 1}, at::kLong), 0, "none", {});
  EXPECT_THROW(actor.learn(batch, 0), Error);
}

}  // namespace
}  // namespace parl
