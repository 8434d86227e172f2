#include "parl/algorithms/independent.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parl/agent/per_agent.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/dqn.h"
#include "parl/algorithms/ppo.h"
#include "parl/core/error_of.h"
#include "parl/models/mlp.h"

namespace parl {
namespace {

const ModelSpec kSpec{{3}, DType::kF32, 4, 0};

std::unique_ptr<Algorithm> make_ppo(uint64_t seed) {
  torch::manual_seed(seed);
  PpoConfig config;
  config.minibatches = 2;
  return std::make_unique<Ppo>(std::make_shared<Mlp>(kSpec, std::vector<int64_t>{8}), config);
}

std::unique_ptr<Algorithm> make_both() {
  std::vector<std::unique_ptr<Algorithm>> each;
  each.push_back(make_ppo(1));
  each.push_back(make_ppo(2));
  return std::make_unique<Independent>(std::vector<std::string>{"left", "right"}, std::move(each));
}

Batch make_batch(Algorithm& algorithm, int64_t unrolls, int64_t length) {
  torch::manual_seed(9);
  Batch b;
  b.obs = torch::randn({unrolls, length + 1, 3});
  const ActOutput out =
      algorithm.sample(b.obs.narrow(1, 0, length).transpose(0, 1).reshape({-1, 3}), torch::rand({unrolls * length}));
  b.action = out.action.view({length, unrolls}).t().contiguous();
  b.behaviour_logits = out.logits.view({length, unrolls, 4}).transpose(0, 1).contiguous();
  b.reward = torch::randn({unrolls, length});
  b.terminated = torch::rand({unrolls, length}).lt(0.1);
  b.truncated = torch::rand({unrolls, length}).lt(0.1).logical_and(b.terminated.logical_not());
  b.final_index = b.truncated.flatten().nonzero().flatten();
  b.final_obs = torch::randn({b.final_index.size(0), 3});
  b.version = torch::zeros({unrolls}, at::kLong);
  return b;
}

bool equal(const Weights& a, const Weights& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (size_t i = 0; i < a.entries.size(); ++i) {
    if (a.entries[i].name != b.entries[i].name || !(a.entries[i].array == b.entries[i].array)) return false;
  }
  return true;
}

TEST(Independent, EachActsInItsOwnRows) {
  const auto both = make_both(), left = make_ppo(1), right = make_ppo(2);
  const at::Tensor obs = torch::randn({6, 3}), uniforms = torch::rand({6});
  const ActOutput out = both->sample(obs, uniforms), greedy = both->predict(obs);
  const at::Tensor even = torch::tensor({0, 2, 4}), odd = torch::tensor({1, 3, 5});
  for (const auto& [rows, alone] : {std::pair(even, left.get()), std::pair(odd, right.get())}) {
    const ActOutput own = alone->sample(obs.index_select(0, rows), uniforms.index_select(0, rows));
    EXPECT_TRUE(out.action.index_select(0, rows).equal(own.action));
    EXPECT_TRUE(out.logits.index_select(0, rows).equal(own.logits));
    EXPECT_TRUE(out.value.index_select(0, rows).equal(own.value));
    EXPECT_TRUE(greedy.action.index_select(0, rows).equal(alone->predict(obs.index_select(0, rows)).action));
  }
  EXPECT_NE(error_of([&] { both->predict(torch::randn({5, 3})); }).find("multiple of the 2 agents"), std::string::npos);
}

TEST(Independent, EachLearnsFromItsOwnUnrolls) {
  const auto both = make_both(), left = make_ppo(1), right = make_ppo(2);
  const Batch batch = make_batch(*both, 4, 5);
  const LearnStats stats = both->learn(batch, 100);
  const LearnStats of_left = left->learn(batch.select(torch::tensor({0, 2})), 100);
  const LearnStats of_right = right->learn(batch.select(torch::tensor({1, 3})), 100);
  EXPECT_TRUE(equal(weights_of_agent(both->get_weights(), "left"), left->get_weights()));
  EXPECT_TRUE(equal(weights_of_agent(both->get_weights(), "right"), right->get_weights()));
  ASSERT_EQ(stats.size(), of_left.size() + of_right.size());
  EXPECT_EQ(stats[0].first, "left/" + of_left[0].first);
  EXPECT_EQ(stats[0].second, of_left[0].second);
  EXPECT_EQ(stats[of_left.size()].first, "right/" + of_right[0].first);
  EXPECT_EQ(stats[of_left.size()].second, of_right[0].second);
}

TEST(Independent, ContinuesToTheBit) {
  const auto whole = make_both(), other = make_both();
  const Batch batch = make_batch(*whole, 4, 5);
  whole->learn(batch, 100);
  other->set_weights(whole->get_weights());
  other->set_state(whole->get_state());
  EXPECT_EQ(whole->learn(batch, 120), other->learn(batch, 120));
  EXPECT_TRUE(equal(whole->get_weights(), other->get_weights()));
}

TEST(Independent, ExplorationKeepsItsPlaceInTheNames) {
  std::vector<std::unique_ptr<Algorithm>> each;
  for (int i = 0; i < 2; ++i)
    each.push_back(std::make_unique<Dqn>(std::make_shared<Mlp>(kSpec, std::vector<int64_t>{8})));
  Independent both({"left", "right"}, std::move(each));
  const Weights all = both.get_weights();
  EXPECT_EQ(network_weights(all).entries.size() + 2, all.entries.size());  // an epsilon each
  const Weights left = weights_of_agent(all, "left");
  EXPECT_EQ(left.entries.back().name, "exploration/epsilon");
  both.set_weights(all);
  const std::string error = error_of([&] { weights_of_agent(all, "middle"); });
  EXPECT_NE(error.find("left"), std::string::npos) << error;
}

}  // namespace
}  // namespace parl
