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
