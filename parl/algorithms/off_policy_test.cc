#include "parl/algorithms/off_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "parl/agent/module_weights.h"
#include "parl/agent/nonfinite.h"
#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/ddpg.h"
#include "parl/algorithms/learn_stat.h"
#include "parl/algorithms/sac.h"
#include "parl/algorithms/td3.h"
#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/models/mlp.h"
#include "parl/models/relu_mlp.h"

namespace parl {
namespace {

using ::testing::HasSubstr;

const ModelSpec kSpec{{5}, DType::kF32, 0, 2, {-1, -1}, {1, 1}};

// Networks as a user writes them: torch's operators, autograd.
struct PlainPolicy : Model {
  torch::nn::Linear layer1{5, 8}, head{8, 5};
  PlainPolicy() { register_module("layer1", layer1), register_module("head", head); }
  PolicyValue forward(const at::Tensor& obs) override {
    const at::Tensor out = head(layer1(obs).relu());
    return {out.narrow(1, 0, 4), torch::zeros({obs.size(0)})};  // no value
  }
  bool is_gaussian() const override { return true; }
};
struct PlainCritic : QModel {
  torch::nn::Linear layer1{7, 8}, head{8, 1};
  PlainCritic() { register_module("layer1", layer1), register_module("head", head); }
  at::Tensor forward(const at::Tensor& obs, const at::Tensor& action) override {
    return head(layer1(at::cat({obs, action}, 1)).relu()).squeeze(1);
  }
};

std::shared_ptr<Model> make_policy(bool plain) {
  if (plain) return std::make_shared<PlainPolicy>();
  return std::make_shared<ReluMlp>(kSpec, std::vector<int64_t>{8});
}
OffPolicyNetworks make_networks(bool plain, int critics, bool target_policy) {
  return make_off_policy_networks([plain](const ModelSpec&) { return make_policy(plain); },
                                  [plain](const ModelSpec&) -> std::shared_ptr<QModel> {
                                    if (plain) return std::make_shared<PlainCritic>();
                                    return std::make_shared<MlpCritic>(kSpec, std::vector<int64_t>{8});
                                  },
                                  kSpec, critics, target_policy);
}

bool has(const LearnStats& stats, const std::string& name) {
  return std::any_of(stats.begin(), stats.end(), [&](const auto& s) { return s.first == name; });
}

std::unique_ptr<OffPolicy> make_case(const nlohmann::json& c, std::shared_ptr<Model> policy, OffPolicyNetworks nets) {
  const auto common = [&](OffPolicyConfig& config) {
    config.lr = c["lr"], config.critic_lr = c["critic_lr"], config.tau = c["tau"];
  };
  if (c["algorithm"] == "sac") {
    SacConfig config;
    common(config);
    config.alpha = c["alpha"], config.auto_alpha = c["auto_alpha"], config.alpha_lr = c["alpha_lr"];
    if (!c["target_entropy"].is_null()) config.target_entropy = c["target_entropy"].get<double>();
    return std::make_unique<Sac>(policy, config, std::move(nets));
  }
  if (c["algorithm"] == "td3") {
    Td3Config config;
    common(config);
    config.target_noise = c["target_noise"], config.target_noise_clip = c["target_noise_clip"];
    config.policy_delay = c["policy_delay"];
    return std::make_unique<Td3>(policy, config, std::move(nets));
  }
  DdpgConfig config;
  common(config);
  return std::make_unique<Ddpg>(policy, config, std::move(nets));
}

class ByReference : public ::testing::TestWithParam<bool> {};

TEST_P(ByReference, UpdatesEqualPyTorch) {
  SafetensorsMetadata metadata;
  const std::string file = std::string(PARL_SOURCE_DIR) + "/parl/algorithms/testdata/continuous_reference.safetensors";
  const Weights reference = load_safetensors(file, &metadata);
  const nlohmann::json cases = nlohmann::json::parse(metadata.at("cases"));
  ASSERT_EQ(cases.size(), 6u);
  for (const auto& [name, c] : cases.items()) {
    SCOPED_TRACE(name);
    const auto get = [&](const std::string& what) { return to_tensor(get_entry(reference, name + "/" + what)); };
    const auto load = [&](torch::nn::Module& module, const std::string& prefix) {
      Weights weights;
      for (const auto& item : module.named_parameters()) {
        weights.entries.push_back({item.key(), get_entry(reference, name + "/initial/" + prefix + item.key())});
      }
      set_module_weights(module, weights);
    };
    auto policy = make_policy(GetParam());
    load(*policy, "policy/");
    OffPolicyNetworks nets = make_networks(GetParam(), c["algorithm"] == "ddpg" ? 1 : 2, c["algorithm"] != "sac");
    for (size_t i = 0; i < nets.critics.size(); ++i) load(*nets.critics[i], "critic" + std::to_string(i) + "/");
    auto algorithm = make_case(c, policy, std::move(nets));
    for (int update = 1; update <= 5; ++update) {
      const std::string at = std::to_string(update) + "/";
      ReplaySample sample;
      sample.obs = get(at + "obs"), sample.next_obs = get(at + "next_obs"), sample.action = get(at + "action");
      sample.reward = get(at + "reward"), sample.discount = get(at + "discount");
      const LearnStats stats = algorithm->update(sample, get(at + "noise"));
      EXPECT_NEAR(stat(stats, "loss"), get(at + "loss").item<double>(), 2e-4) << update;
      const bool moved = find_entry(reference, name + "/" + at + "actor_loss") != nullptr;
      ASSERT_EQ(has(stats, "actor_loss"), moved) << update;
      if (moved) {
        EXPECT_NEAR(stat(stats, "actor_loss"), get(at + "actor_loss").item<double>(), 1e-4) << update;
      }
    }
    Weights state = algorithm->get_state();
    for (NamedArray& entry : algorithm->get_weights().entries)
      state.entries.push_back({"policy/" + entry.name, entry.array});
    int compared = 0;
    for (const NamedArray& entry : reference.entries) {
      const std::string prefix = name + "/after/";
      if (!entry.name.starts_with(prefix)) continue;
      const std::string what = entry.name.substr(prefix.size());
      if (what == "alpha") {
        const auto* sac = dynamic_cast<Sac*>(algorithm.get());
        if (sac) {
          EXPECT_NEAR(sac->alpha(), to_tensor(entry.array).item<double>(), 1e-5);
        }
        continue;
      }
      EXPECT_TRUE(at::allclose(to_tensor(get_entry(state, what)), to_tensor(entry.array), 1e-3, 5e-5)) << what;
      ++compared;
    }
    EXPECT_EQ(compared, c["algorithm"] == "sac" ? 20 : c["algorithm"] == "td3" ? 24 : 16);
  }
}

INSTANTIATE_TEST_SUITE_P(Both, ByReference, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Autograd" : "HandWritten"; });

Batch one_transition(const std::string& end, double reward = 0.5) {
  torch::manual_seed(11);
  Batch b;
  b.obs = torch::randn({1, 2, 5});
  b.action = torch::rand({1, 1, 2}) * 2 - 1;
  b.behaviour_logits = torch::zeros({1, 1, 4});
  b.reward = torch::full({1, 1}, reward, at::kFloat);
  b.terminated = torch::full({1, 1}, end == "terminated", at::kBool);
  b.truncated = torch::full({1, 1}, end == "truncated", at::kBool);
  b.final_index = torch::zeros({end == "truncated" ? 1 : 0}, at::kLong);
  if (end == "truncated") b.final_obs = torch::randn({1, 5});
  return b;
}

TEST(OffPolicy, TargetsKnowBothKindsOfEnd) {
  for (const std::string end : {"none", "terminated", "truncated"}) {
    SCOPED_TRACE(end);
    torch::manual_seed(7);
    DdpgConfig config;
    config.gamma = 0.9, config.batch_size = 1, config.train_ratio = 1, config.learn_start = 0;
    auto policy = make_policy(true);
    OffPolicyNetworks nets = make_networks(true, 1, true);
    auto critic = nets.critics[0];
    Ddpg ddpg(policy, config, std::move(nets));
    const Batch b = one_transition(end);
    double expected = 0.5;
    {
      torch::NoGradGuard no_grad;  // by hand; the targets equal their originals at first
      const at::Tensor next = end == "truncated" ? b.final_obs : b.obs.select(1, 1);
      const at::Tensor action = policy->forward(next).logits.narrow(1, 0, 2).tanh();
      if (end != "terminated") expected += 0.9 * critic->forward(next, action).item<double>();
      const double q = critic->forward(b.obs.select(1, 0), b.action.select(1, 0)).item<double>();
      expected = (q - expected) * (q - expected);
    }
    const LearnStats stats = ddpg.learn(b, 0);
    EXPECT_EQ(stat(stats, "updates"), 1);
    EXPECT_NEAR(stat(stats, "loss"), expected, 1e-5);
  }
}

TEST(OffPolicy, LearnsWhatIsOwedAndNoMore) {
  SacConfig config;
  config.batch_size = 8, config.train_ratio = 3, config.learn_start = 10, config.replay_capacity = 100;
  torch::manual_seed(3);
  Sac sac(make_policy(false), config, make_networks(false, 2, false));
  double updates = 0;
  for (int64_t step = 0; step < 41; ++step) {
    EXPECT_EQ(sac.acts_randomly(), step < 10) << step;
    updates += stat(sac.learn(one_transition("none"), step), "updates");
  }
  EXPECT_EQ(updates, std::floor(32 * 3 / 8.0));  // steps 9..40 count: after ten steps
}

TEST(OffPolicy, ActorsActByTheWeightsAlone) {
  torch::manual_seed(5);
  Td3Config config;
  config.learn_start = 10, config.batch_size = 1, config.exploration_noise = 0.4;
  Td3 learner(make_policy(false), config, make_networks(false, 2, true)), actor(make_policy(false), config);
  const at::Tensor obs = torch::randn({1000, 5}), uniforms = torch::rand({1000, 2});
  actor.set_weights(learner.get_weights());
  EXPECT_EQ(learner.get_weights().entries.size(), 5u);                         // the policy's four and how to explore
  EXPECT_TRUE(actor.sample(obs, uniforms).action.allclose(uniforms * 2 - 1));  // uniform at first
  actor.play_for_evaluation(true);
  EXPECT_TRUE(actor.sample(obs, uniforms).action.equal(actor.predict(obs).action));
  actor.play_for_evaluation(false);

  learner.learn(one_transition("none"), 20);
  actor.set_weights(learner.get_weights());
  const at::Tensor action = actor.sample(obs, uniforms).action, mean = actor.predict(obs).action;
  EXPECT_TRUE(learner.sample(obs, uniforms).action.equal(action));
  EXPECT_LE(action.abs().max().item<float>(), 1);
  const at::Tensor inside = action.abs().lt(1), noise = (action - mean).masked_select(inside);
  EXPECT_GT(noise.std().item<double>(), 0.3);
  EXPECT_LT(noise.std().item<double>(), 0.42);
  EXPECT_THAT(error_of([&] { actor.learn(one_transition("none"), 0); }), HasSubstr("without critics"));
}

TEST(OffPolicy, HoldsARandomActionForAVersion) {
  torch::manual_seed(5);
  DdpgConfig config;
  config.learn_start = 10, config.hold_random = true;
  Ddpg learner(make_policy(false), config, make_networks(false, 1, true)), actor(make_policy(false), config);
  const auto act = [&] {
    actor.set_weights(learner.get_weights());
    return actor.sample(torch::randn({7, 5}), torch::rand({7, 2})).action;
  };
  EXPECT_FALSE(act()[0].equal(act()[0]));  // none is held before the first batch
  learner.learn(one_transition("none"), 0);
  const at::Tensor first = act();
  EXPECT_TRUE(first.eq(first[0]).all().item<bool>());
  EXPECT_TRUE(act().equal(first));
  learner.learn(one_transition("none"), 1);
  EXPECT_FALSE(act().equal(first));
  EXPECT_LE(act().abs().max().item<float>(), 1);
  learner.learn(one_transition("none"), 20);  // the policy acts now
  EXPECT_FALSE(act()[0].equal(act()[1]));
}

TEST(Sac, DrawsFromItsPolicyAlsoInEvaluation) {
  torch::manual_seed(6);
  SacConfig config;
  config.learn_start = 0;
  Sac actor(make_policy(true), config);
  const at::Tensor obs = torch::randn({1, 5}).expand({4000, 5}).contiguous(), uniforms = torch::rand({4000, 2});
  const ActOutput out = actor.sample(obs, uniforms);
  actor.play_for_evaluation(true);
  EXPECT_TRUE(actor.sample(obs, uniforms).action.equal(out.action));
  // atanh of the actions has the network's mean and deviation.
  const at::Tensor u = out.action.to(at::kDouble).atanh(), parameters = out.logits[0];
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(u.select(1, i).mean().item<double>(), parameters[i].item<double>(), 0.1);
    EXPECT_NEAR(u.select(1, i).std().log().item<double>(), parameters[2 + i].item<double>(), 0.1);
  }
}

TEST(OffPolicy, NamesWhatIsNotFinite) {
  torch::manual_seed(4);
  SacConfig config;
  config.batch_size = 1, config.train_ratio = 1, config.learn_start = 0;
  OffPolicyNetworks nets = make_networks(false, 2, false);
  auto critic = nets.critics[1];
  Sac sac(make_policy(false), config, std::move(nets));
  EXPECT_THROW(sac.learn(one_transition("none", std::numeric_limits<double>::quiet_NaN()), 0), NonFiniteError);
  const Weights before = sac.get_weights();
  {
    torch::NoGradGuard no_grad;
    critic->named_parameters()["head.bias"].fill_(std::numeric_limits<float>::infinity());
  }
  try {
    sac.learn(one_transition("none"), 0);
    FAIL() << "nothing thrown";
  } catch (const NonFiniteError& error) {
    EXPECT_EQ(error.tensor(), "critic");
  }
  const Weights after = sac.get_weights();
  for (size_t i = 0; i < before.entries.size(); ++i) EXPECT_TRUE(before.entries[i].array == after.entries[i].array);
}

TEST(OffPolicy, RefusesWhatCannotBe) {
  SacConfig config;
  config.tau = 0;
  EXPECT_THAT(error_of([&] { Sac(make_policy(true), config); }), HasSubstr("tau"));
  EXPECT_THAT(error_of([&] { Sac(make_policy(true), {}, make_networks(true, 1, false)); }), HasSubstr("two critics"));
  const ModelSpec discrete{{5}, DType::kF32, 3, 0};
  EXPECT_THAT(error_of([&] { Td3(std::make_shared<Mlp>(discrete)); }), HasSubstr("Gaussian"));
}

}  // namespace
}  // namespace parl
