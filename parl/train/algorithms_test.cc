// What the program's algorithms learn in small runs, and how their settings travel; what all promise:
// algorithm_conformance_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

#include "parl/agent/schedule.h"
#include "parl/algorithms/a2c.h"
#include "parl/algorithms/appo.h"
#include "parl/algorithms/dqn.h"
#include "parl/algorithms/ppo.h"
#include "parl/algorithms/pqn.h"
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
TrainConfig config_for(const std::string& variant) {
  const std::string algorithm = algorithm_of(variant);
  TrainConfig config = program().config_of(algorithm);
  config.env = is_continuous(variant) ? "Pendulum-v1" : "CartPole-v1";
  apply_preset(config,
               algorithm == variant ? default_preset(config.env, algorithm) : variant.substr(algorithm.size() + 1));
  return config;
}

const std::vector<std::string> kAll = {"impala", "a2c",  "ppo", "appo", "ga3c", "pg", "dqn", "dqn rainbow_classic",
                                       "pqn",    "ddpg", "td3", "sac"};

class EveryAlgorithm : public ::testing::TestWithParam<std::string> {};

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
                         ::testing::Values("impala", "a2c", "ppo", "appo", "ga3c", "pg", "dqn", "dqn rainbow_classic",
                                           "pqn"),
                         test_name);

// A reward of 1 or -1 a step: what that can sum to must lie between the atoms, or all targets are one of their ends.
TEST(Algorithms, RainbowsAtomsHoldTheReturnsOfClassicTasks) {
  const TrainConfig config = config_for("dqn rainbow_classic");
  const DqnConfig& dqn = config.settings.as<DqnConfig>();
  const double most = 1 / (1 - dqn.gamma);
  EXPECT_LE(dqn.v_min, -most);
  EXPECT_GE(dqn.v_max, most);
}

TEST(Algorithms, PresetsHaveThePapersNumbers) {
  TrainConfig config = program().config_of("impala");
  apply_preset(config, "deepmind");
  const Schedule lr(config.settings.as<ImpalaConfig>().lr_schedule);
  EXPECT_DOUBLE_EQ(lr.at(0), 6e-4);
  EXPECT_NEAR(lr.at(25e6), 3e-4, 1e-12);
  EXPECT_DOUBLE_EQ(lr.at(50e6), 0);
  config = program().config_of("pqn");
  apply_preset(config, "atari");
  EXPECT_EQ(config.settings.as<PqnConfig>().eps, 1e-8);
}

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
    EXPECT_THAT(error_of([&] { train(config); }), HasSubstr("ppo, ")) << name;
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

TEST(Algorithms, WhatDoesNotFitTheAlgorithmIsRefused) {
  const auto error = [](const char* name, const std::function<void(TrainConfig&)>& change) {
    TrainConfig config = config_for(name);
    config.run = "somewhere";
    change(config);
    return error_of([&] { config.check(); });
  };
  EXPECT_THAT(error("ga3c", [](TrainConfig& c) { c.max_ahead = 4096; }), HasSubstr("--max-ahead"));
  EXPECT_THAT(error("dqn", [](TrainConfig& c) { c.normalize_rewards = true; }), HasSubstr("These have: impala, a2c"));
  EXPECT_THAT(error("appo", [](TrainConfig& c) { c.settings.as<AppoConfig>().clip = 0; }), HasSubstr("--clip"));
  const TempDir dir;
  TrainConfig several = config_for("es");
  several.env = "multi:gather";
  several.run = dir.file("run");
  several.steps = 1'000;
  EXPECT_THAT(error_of([&] { train(several); }), HasSubstr("one agent at a time"));
}

TEST(Algorithms, SchedulesEndWithTheRun) {
  TrainConfig config = config_for("a2c");
  config.settings.as<A2cConfig>().lr_schedule = "0:1,100%:0";
  config.steps = 1'000;
  EnvSpec env = program().envs.make({.id = config.env})->spec();
  const auto learner = parl::make_learner(config, env);
  Batch batch;
  batch.obs = torch::zeros({1, 2, 4}), batch.action = torch::zeros({1, 1}, at::kLong);
  batch.behaviour_logits = torch::zeros({1, 1, 2}), batch.reward = torch::zeros({1, 1});
  batch.terminated = torch::ones({1, 1}, at::kBool), batch.truncated = torch::zeros({1, 1}, at::kBool);
  batch.final_index = torch::zeros({0}, at::kLong), batch.version = torch::zeros({1}, at::kLong);
  const LearnStats stats = learner->learn(batch, 250);
  const auto lr = std::find_if(stats.begin(), stats.end(), [](const auto& s) { return s.first == "lr"; });
  ASSERT_NE(lr, stats.end());
  EXPECT_DOUBLE_EQ(lr->second, 0.75);
}

TEST(Algorithms, SettingsOfAnotherTypeAreRefused) {
  TrainConfig config = config_for("a2c");
  config.run = "somewhere";
  config.algorithm = "ppo";
  EXPECT_THROW(config.check(), Error);
}

}  // namespace
}  // namespace parl
