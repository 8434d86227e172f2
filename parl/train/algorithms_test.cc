// What every algorithm of the program promises, whatever it is, and how its settings travel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

#include "parl/algorithms/a2c.h"
#include "parl/algorithms/off_policy.h"
#include "parl/algorithms/ppo.h"
#include "parl/algorithms/replay.h"
#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/models/policy.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/train_test_util.h"
#include "parl/train/trainer.h"

namespace parl {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

// "ppo", or with a preset of its own: "dqn rainbow_classic".
std::string algorithm_of(const std::string& variant) { return variant.substr(0, variant.find(' ')); }

// Those whose policies are tanh of their networks take no discrete actions: they have a task of their own.
bool is_continuous(const std::string& algorithm) { return program().algorithm(algorithm_of(algorithm)).tanh_policy; }
ModelSpec spec_for(const std::string& algorithm) {
  if (is_continuous(algorithm)) return {{4}, DType::kF32, 0, 1, {-1}, {1}};
  return {{4}, DType::kF32, 3, 0};
}
const char* model_for(const std::string& algorithm) { return is_continuous(algorithm) ? "mlp64" : "mlp"; }

TrainConfig config_for(const std::string& variant) {
  const std::string algorithm = algorithm_of(variant);
  TrainConfig config = program().config_of(algorithm);
  config.env = is_continuous(variant) ? "Pendulum-v1" : "CartPole-v1";
  apply_preset(config,
               algorithm == variant ? default_preset(config.env, algorithm) : variant.substr(algorithm.size() + 1));
  return config;
}

std::unique_ptr<Algorithm> make_learner(const std::string& variant) {
  torch::manual_seed(4);
  return program()
      .algorithm(algorithm_of(variant))
      .make_learner(program().models.factory(model_for(variant)), spec_for(variant), config_for(variant));
}

// What a checkpoint carries: weights, state, and the replay buffer where there is one.
void continue_from(Algorithm& from, Algorithm& to) {
  to.set_weights(from.get_weights());
  to.set_state(from.get_state());
  auto* owner = dynamic_cast<ReplayOwner*>(&from);
  if (!owner) return;
  const TempDir dir;
  owner->replay().save(dir.file("replay"));
  dynamic_cast<ReplayOwner&>(to).replay().load(dir.file("replay"));
}

// Uniform numbers for n actions.
at::Tensor uniforms_for(const Algorithm& algorithm, int64_t n) {
  return dynamic_cast<const OffPolicy*>(&algorithm) ? torch::rand({n, 1}) : torch::rand({n});
}

// Unrolls that the algorithm acted in itself: action 1 is worth 1, any other nothing (a continuous one loses its
// distance to 0.5), and every step ends.
Batch bandit(Algorithm& algorithm, int64_t unrolls, int64_t length, uint64_t seed) {
  torch::manual_seed(seed);
  Batch b;
  b.obs = torch::randn({unrolls, length + 1, 4});
  const ActOutput out =
      algorithm.sample(b.obs.narrow(1, 0, length).reshape({-1, 4}), uniforms_for(algorithm, unrolls * length));
  const bool continuous = out.action.dim() == 2;
  b.action = continuous ? out.action.view({unrolls, length, 1}) : out.action.view({unrolls, length});
  b.behaviour_logits = out.logits.view({unrolls, length, -1});
  b.reward = continuous ? 1 - (b.action.squeeze(2) - 0.5).abs() : b.action.eq(1).to(at::kFloat);
  b.terminated = torch::ones({unrolls, length}, at::kBool);
  b.truncated = torch::zeros({unrolls, length}, at::kBool);
  b.final_index = torch::zeros({0}, at::kLong);
  b.version = torch::zeros({unrolls}, at::kLong);
  return b;
}

const std::vector<std::string> kAll = {"impala", "a2c",  "ppo", "appo", "ga3c", "pg", "dqn", "dqn rainbow_classic",
                                       "pqn",    "ddpg", "td3", "sac"};

class EveryAlgorithm : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryAlgorithm, FindsTheActionThatPays) {
  auto learner = make_learner(GetParam());
  for (uint64_t i = 0; i < 60; ++i) learner->learn(bandit(*learner, 8, 16, i), static_cast<int64_t>(i) * 1'000);
  const Batch last = bandit(*learner, 8, 16, 1000);
  EXPECT_GT(last.reward.mean().item<double>(), is_continuous(GetParam()) ? 0.8 : 0.9);  // noise costs about 0.1
  const ActOutput greedy = learner->predict(last.obs.select(1, 0));
  if (is_continuous(GetParam())) {
    EXPECT_LT((greedy.action - 0.5).abs().max().item<double>(), 0.2);
    return;
  }
  EXPECT_TRUE(greedy.action.eq(1).all().item<bool>());
}

TEST_P(EveryAlgorithm, ContinuesToTheBit) {
  auto whole = make_learner(GetParam()), part = make_learner(GetParam());
  const Batch first = bandit(*whole, 8, 16, 1), second = bandit(*whole, 8, 16, 2);
  whole->learn(first, 5'000);
  part->learn(first, 5'000);
  auto continued = make_learner(GetParam());
  continue_from(*part, *continued);
  const LearnStats a = whole->learn(second, 5'128), b = continued->learn(second, 5'128);
  EXPECT_EQ(a, b);
  const Weights left = whole->get_weights(), right = continued->get_weights();
  ASSERT_EQ(left.entries.size(), right.entries.size());
  for (size_t i = 0; i < left.entries.size(); ++i) {
    EXPECT_TRUE(left.entries[i].array == right.entries[i].array) << left.entries[i].name;
  }
}

TEST_P(EveryAlgorithm, ActorActsAsTheLearner) {
  auto learner = make_learner(GetParam());
  for (uint64_t i = 0; i < 3; ++i) learner->learn(bandit(*learner, 4, 8, i), 50'000);
  const AlgorithmEntry& entry = program().algorithm(algorithm_of(GetParam()));
  const AnyConfig settings = config_for(GetParam()).settings;
  auto actor = entry.make_actor(
      program().models.make(model_for(GetParam()), entry.spec_for(spec_for(GetParam()), settings)), settings);
  actor->set_weights(learner->get_weights());
  const at::Tensor obs = torch::randn({16, 4}), uniforms = uniforms_for(*learner, 16);
  const ActOutput a = learner->sample(obs, uniforms), b = actor->sample(obs, uniforms);
  EXPECT_TRUE(a.action.equal(b.action));
  EXPECT_TRUE(a.logits.equal(b.logits));
  EXPECT_TRUE(learner->predict(obs).action.equal(actor->predict(obs).action));
}

class DiscreteAlgorithm : public EveryAlgorithm {};  // for the others: continuous_control_test.cc

TEST_P(DiscreteAlgorithm, LearnsCartPole) {
  TempDir dir;
  TrainConfig config = config_for(GetParam());
  config.run = dir.file("run");
  config.deterministic = true;
  config.steps = 250'000;
  config.until_return = 195;
  TrainHooks hooks;
  hooks.show_status = false;
  EXPECT_EQ(train(config, hooks).stop_reason, "until_return");
}

TEST_P(EveryAlgorithm, SettingsTravelThroughJson) {
  TrainConfig config = config_for(GetParam());
  config_set(config_fields(config), "lr", "0.125");
  const std::string json = config_to_json(config_fields(config));
  EXPECT_THAT(json, HasSubstr("\"" + algorithm_of(GetParam()) + "\": {"));
  TrainConfig read = train_config_of(json, "here");
  EXPECT_EQ(read.algorithm, algorithm_of(GetParam()));
  EXPECT_TRUE(config_differences(config_fields(config), config_fields(read)).empty());
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithm, ::testing::ValuesIn(kAll), test_name);
INSTANTIATE_TEST_SUITE_P(All, DiscreteAlgorithm,
                         ::testing::Values("impala", "a2c", "ppo", "dqn", "dqn rainbow_classic", "pqn"), test_name);

TEST(Algorithms, PpoSwingsThePendulumUp) {
  TempDir dir;
  TrainConfig config = program().config_of("ppo");
  config.env = "Pendulum-v1";
  apply_preset(config, default_preset(config.env, "ppo"));
  config.run = dir.file("run");
  config.deterministic = true;
  config.steps = 300'000;
  config.until_return = -400;  // a policy that does nothing has about -1,200
  TrainHooks hooks;
  hooks.show_status = false;
  EXPECT_EQ(train(config, hooks).stop_reason, "until_return");
  const auto policy = load_policy(config.run);
  const float hanging[] = {-1, 0, 0};
  EXPECT_LE(std::abs(policy->act_values(std::as_bytes(std::span(hanging))).at(0)), 2);
}

TEST(Algorithms, QLearningRefusesContinuousActions) {
  for (const char* name : {"dqn", "pqn"}) {
    TempDir dir;
    TrainConfig config = config_for(name);
    config.env = "Pendulum-v1";
    config.model = "mlp";
    config.run = dir.file("run");
    EXPECT_THAT(error_of([&] { train(config); }), HasSubstr("ppo learns those")) << name;
  }
}

TEST(Algorithms, AreAllTested) {
  for (const AlgorithmEntry& entry : program().algorithms) {
    if (entry.train || entry.from_data) continue;  // es_trainer_test.cc, record_test.cc
    EXPECT_THAT(kAll, ::testing::Contains(entry.name));
  }
}

TEST(Algorithms, SettingsOfOthersAreSkippedAndTheirOwnChecked) {
  TrainConfig config = config_for("ppo");
  config_apply(config, R"({"impala": {"lr": 7}, "ppo": {"clip": 0.3}})", "here");
  EXPECT_EQ(config.settings.as<PpoConfig>().clip, 0.3);
  EXPECT_NE(config.settings.as<PpoConfig>().lr, 7);
  EXPECT_THAT(error_of([&] { config_apply(config, R"({"ppo": {"clp": 0.3}})", "here"); }), HasSubstr("clip"));
  EXPECT_THAT(error_of([] { train_config_of(R"({"algorithm": "pp"})", "here"); }), HasSubstr("ppo"));
  EXPECT_THAT(error_of([] { preset("parl", "ppo"); }), HasSubstr("belongs to impala"));
}

TEST(Algorithms, OnPolicyOnesRefuseALag) {
  for (const char* name : {"a2c", "ppo", "pqn", "pg"}) {
    TrainConfig config = config_for(name);
    config.run = "somewhere";
    config.max_lag = 2;
    EXPECT_THAT(error_of([&] { config.check(); }), HasSubstr("--max-lag 0")) << name;
  }
}

TEST(Algorithms, SettingsOfAnotherTypeAreRefused) {
  TrainConfig config = config_for("a2c");
  config.run = "somewhere";
  config.algorithm = "ppo";
  EXPECT_THROW(config.check(), Error);
}

}  // namespace
}  // namespace parl
