// What every algorithm of the program promises, whatever it is, and how its settings travel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "parl/algorithms/a2c.h"
#include "parl/algorithms/pg.h"
#include "parl/algorithms/ppo.h"
#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/models/policy.h"
#include "parl/train/algorithm_conformance.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/train_test_util.h"
#include "parl/train/trainer.h"

namespace parl {
namespace {

using ::testing::AllOf;
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

TEST_P(EveryAlgorithm, KeepsTheContract) {
  check_algorithm(program().algorithm(algorithm_of(GetParam())), config_for(GetParam()));
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

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithm, ::testing::ValuesIn(kAll), test_name);
INSTANTIATE_TEST_SUITE_P(All, DiscreteAlgorithm,
                         ::testing::Values("impala", "a2c", "ppo", "dqn", "dqn rainbow_classic", "pqn"), test_name);

// Each breaks one promise; what check_algorithm() says of it.
template <typename Broken>
std::string verdict() {
  AlgorithmEntry entry = program().algorithm("pg");
  entry.make_learner = [](const ModelFactory& model, const ModelSpec& spec, const TrainConfig& run) {
    return std::make_unique<Broken>(model(spec), run.settings.as<PgConfig>());
  };
  entry.make_actor = [](std::shared_ptr<Model> model, const AnyConfig& settings) {
    auto actor = std::make_unique<Broken>(std::move(model), settings.as<PgConfig>());
    actor->acts_only = true;
    return actor;
  };
  return error_of([&] { check_algorithm(entry, config_for("pg")); });
}

struct Broken : Pg {
  using Pg::Pg;
  bool acts_only = false;
};
struct KeepsNoState : Broken {
  using Broken::Broken;
  void set_state(const Weights& /*state*/) override {}
};
struct NeverLearns : Broken {
  using Broken::Broken;
  LearnStats learn(const Batch& /*batch*/, int64_t /*agent_steps*/) override { return {{"loss", std::nan("")}}; }
};
struct ActsOtherwise : Broken {
  using Broken::Broken;
  ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) override {
    return Broken::sample(obs, acts_only ? 1 - uniforms : uniforms);
  }
};

TEST(CheckAlgorithm, FindsWhatIsBroken) {
  EXPECT_EQ(verdict<Broken>(), "nothing thrown");
  EXPECT_THAT(verdict<KeepsNoState>(), HasSubstr("continued from get_weights() and get_state()"));
  EXPECT_THAT(verdict<NeverLearns>(), AllOf(HasSubstr("a loss that is not finite"), HasSubstr("does not choose")));
  EXPECT_THAT(verdict<ActsOtherwise>(), HasSubstr("sample() of an actor draws other actions"));
  EXPECT_THAT(error_of([] { check_algorithm(program().algorithm("es"), program().config_of("es")); }),
              HasSubstr("'es'"));
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
