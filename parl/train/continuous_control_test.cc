// DDPG, TD3 and SAC through the whole loop: learning, playing, continuing, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "parl/agent/gaussian.h"
#include "parl/algorithms/sac.h"
#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/core/files.h"
#include "parl/models/policy.h"
#include "parl/train/checkpoint.h"
#include "parl/train/evaluate.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/train_test_util.h"
#include "parl/train/trainer.h"

namespace parl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempDir;

TrainConfig pendulum(const std::string& algorithm, const std::string& run) {
  TrainConfig config = program().config_of(algorithm);
  config.env = "Pendulum-v1";
  apply_preset(config, default_preset(config.env, algorithm));
  config.run = run;
  config.deterministic = true;
  return config;
}

TrainSummary run(const TrainConfig& config) {
  TrainHooks hooks;
  hooks.show_status = false;
  return train(config, hooks);
}

class ContinuousControl : public ::testing::TestWithParam<std::string> {};

TEST_P(ContinuousControl, SwingsThePendulumUp) {
  TempDir dir;
  TrainConfig config = pendulum(GetParam(), dir.file("run"));
  config.steps = 12'000;
  run(config);
  const LoadedRun loaded = load_run(config.run, false);
  EvalOptions options;
  options.env = config.env;
  const EvalSummary eval = evaluate(*loaded.algorithm, options);  // ten episodes
  EXPECT_GT(eval.return_mean, -400);                              // a policy that does nothing has about -1,200

  // The policy without its algorithm does the same.
  const auto policy = load_policy(dir.file("run"));
  torch::manual_seed(1);
  const at::Tensor obs = torch::randn({20, 3});
  const at::Tensor own = loaded.algorithm->predict(obs).action, in_units = policy->act(obs);
  EXPECT_TRUE(in_units.allclose(2 * own, 1e-5, 1e-6));
}

TEST_P(ContinuousControl, ContinuesAsIfNeverStopped) {
  TempDir dir;
  TrainConfig whole = pendulum(GetParam(), dir.file("whole"));
  whole.steps = 1'600;
  run(whole);
  TrainConfig parts = whole;
  parts.run = dir.file("parts");
  parts.steps = 1'300;  // learning has begun
  run(parts);
  parts.steps = whole.steps;
  run(parts);
  const auto weights = [](const TrainConfig& config) {
    return read_file(*latest_checkpoint(config.run) + "/weights.safetensors");
  };
  EXPECT_EQ(weights(parts), weights(whole));

  TrainConfig tuned = pendulum(GetParam(), dir.file("tuned"));  // fine-tuning: the policy's weights, fresh critics
  tuned.init_from = whole.run;
  tuned.steps = 1'100;
  tuned.seed = 2;
  EXPECT_GE(run(tuned).steps, 1'100);
}

INSTANTIATE_TEST_SUITE_P(All, ContinuousControl, ::testing::Values("ddpg", "td3", "sac"),
                         [](const auto& info) { return info.param; });

TEST_P(ContinuousControl, LearnsFromObservationsOfParts) {
  TempDir dir;
  TrainConfig config = program().config_of(GetParam());
  config.env = "Aim-v0";
  config.run = dir.file("run");
  config.deterministic = true;
  config.steps = 1'200;
  for (const auto& [name, value] : {std::pair{"lr", "2e-3"},
                                    {"gamma", "0"},
                                    {"batch-size", "32"},
                                    {"train-ratio", "12"},
                                    {"learn-start", "200"},
                                    {"replay-capacity", "4000"}}) {
    config_set(config_fields(config), name, value);
  }
  if (GetParam() == "sac") config_set(config_fields(config), "alpha", "0.1");
  run(config);
  const LoadedRun loaded = load_run(config.run, false);
  EXPECT_EQ(loaded.config.model, "dict");  // what auto stood for
  EvalOptions options;
  options.env = config.env;
  options.episodes = 30;
  EXPECT_GT(evaluate(*loaded.algorithm, options).return_mean, 3.3);

  for (const char* name : {"model", "critic"}) {
    TrainConfig other = config;
    other.run = dir.file("other");
    config_set(config_fields(other), name, "mlp256");
    EXPECT_THAT(error_of([&] { run(other); }), HasSubstr("2 parts, the first 'place': use dict")) << name;
  }
}

TEST(ContinuousControlModels, AutoIsMlp256UnlessThereAreParts) {
  const AlgorithmEntry &sac = program().algorithm("sac"), &ppo = program().algorithm("ppo");
  ModelSpec spec{{3}, DType::kF32, 0, 1, {-1}, {1}};
  EXPECT_EQ(default_model(sac, spec), "mlp256");
  EXPECT_EQ(default_model(ppo, spec), "mlp");
  spec.parts = {{"x", DType::kU8, {3}, 0}};
  EXPECT_EQ(default_model(sac, spec), "dict");
}

// PPO's policy acts by its network's means, SAC's by their tanh: the same weights are another policy.
TEST(ContinuousControlErrors, WeightsOfAnotherKindOfPolicyAreRefused) {
  TempDir dir;
  const auto small = [&](const std::string& algorithm, const std::string& name) {
    TrainConfig config = program().config_of(algorithm);
    config.env = "Pendulum-v1";
    config.model = "mlp64";
    config.run = dir.file(name);
    config.actors = 1, config.envs_per_actor = 2, config.rollout_length = 16, config.steps = 64;
    if (algorithm == "ppo") return config;
    for (const auto& [key, value] : {std::pair{"learn-start", "32"}, {"batch-size", "8"}, {"train-ratio", "1"}}) {
      config_set(config_fields(config), key, value);
    }
    return config;
  };
  run(small("ppo", "ppo"));
  run(small("sac", "sac"));
  const auto begin = [&](const std::string& algorithm, const std::string& from) {
    TrainConfig config = small(algorithm, algorithm + "_from_" + from);
    config.init_from = dir.file(from);
    return error_of([&] { run(config); });
  };
  EXPECT_THAT(begin("td3", "ppo"), AllOf(HasSubstr("td3's are the tanh"), HasSubstr("impala, a2c, ppo")));
  EXPECT_THAT(begin("ppo", "sac"), AllOf(HasSubstr("ppo's are those means"), HasSubstr(": ddpg, td3, sac")));
  EXPECT_EQ(begin("td3", "sac"), "nothing thrown");
}

TEST(ContinuousControlErrors, SayWhatToDo) {
  TempDir dir;
  TrainConfig config = pendulum("sac", dir.file("run"));
  config.env = "CartPole-v1";
  EXPECT_THAT(error_of([&] { run(config); }), HasSubstr("learn them: impala, a2c, ppo"));
  config = pendulum("sac", dir.file("run"));
  config.settings.as<SacConfig>().critic = "mlp265";
  EXPECT_THAT(error_of([&] { run(config); }), HasSubstr("mlp256"));
  config = pendulum("sac", dir.file("run"));
  config.settings.as<SacConfig>().learn_start = config.steps;
  EXPECT_THAT(error_of([&] { config.check(); }), HasSubstr("--learn-start"));
  const double inf = std::numeric_limits<double>::infinity();
  const ModelSpec unbounded{{3}, DType::kF32, 0, 2, {-1, -inf}, {1, inf}};
  EXPECT_THAT(error_of([&] {
                program().algorithm("td3").make_learner(program().models.factory("mlp64"), unbounded,
                                                        pendulum("td3", dir.file("run")));
              }),
              HasSubstr("component 1"));
}

}  // namespace
}  // namespace parl
