// Several agents in one environment, from the game to the policies: one network for all, or one each.
#include <gtest/gtest.h>

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

TrainConfig config_for(const std::string& env, const std::string& policies, const std::string& run) {
  TrainConfig c = program().config_of("ppo");
  c.env = env;
  apply_preset(c, default_preset(c.env, c.algorithm));
  c.policies = policies;
  c.run = run;
  c.deterministic = true;
  return c;
}

TrainSummary run_quietly(const TrainConfig& config) {
  TrainHooks hooks;
  hooks.show_status = false;
  return train(config, hooks);
}

// Random play of gather earns 0.12 each; everything that there is, 0.5.
TEST(MultiAgent, OneNetworkForAllLearnsToGather) {
  testing::TempDir dir;
  TrainConfig c = config_for("multi:gather", "shared", dir.file("run"));
  c.steps = 400'000;
  c.until_return = 0.3;
  const TrainSummary summary = run_quietly(c);
  EXPECT_EQ(summary.stop_reason, "until_return")
      << summary.return_mean_100.value_or(-1) << " after " << summary.steps << " steps";
  EXPECT_EQ(load_policy(c.run)->spec().num_actions, 5);
}

TEST(MultiAgent, ANetworkEachLearnsToGather) {
  testing::TempDir dir;
  TrainConfig c = config_for("multi:gather", "independent", dir.file("run"));
  c.steps = 400'000;
  c.until_return = 0.25;
  const TrainSummary summary = run_quietly(c);
  EXPECT_EQ(summary.stop_reason, "until_return")
      << summary.return_mean_100.value_or(-1) << " after " << summary.steps << " steps";
  const std::string error = error_of([&] { load_policy(c.run); });
  EXPECT_NE(error.find("gatherer_0,gatherer_1"), std::string::npos) << error;
  const auto first = load_policy(c.run, builtin_models(), "gatherer_0");
  const auto second = load_policy(c.run, builtin_models(), "gatherer_1");
  const at::Tensor obs = at::zeros({1, first->spec().obs_shape[0]});
  EXPECT_FALSE(first->forward(obs).logits.equal(second->forward(obs).logits));
  const LoadedRun run = load_run(c.run);
  EvalOptions options;
  options.env = c.env;
  options.episodes = 7;
  options.envs = 3;
  EXPECT_EQ(evaluate(*run.algorithm, options).episodes.size(), 7u);
}

TEST(MultiAgent, RunsAreTheSameInEveryEngineAndWhenContinued) {
  testing::TempDir dir;
  std::vector<std::string> weights;
  for (const std::string name : {"thread", "process", "continued"}) {
    TrainConfig c = config_for("multi:rally", "independent", dir.file(name));
    c.engine = name == "process" ? "process" : "thread";
    c.envs_per_actor = 4;
    c.log_steps = 1'024;
    c.checkpoint_steps = 1'024;
    if (name == "continued") {
      c.steps = 2'048;
      run_quietly(c);
    }
    c.steps = 4'096;
    run_quietly(c);
    weights.push_back(read_file(*latest_checkpoint(c.run) + "/weights.safetensors"));
  }
  EXPECT_TRUE(weights[0] == weights[1]);
  EXPECT_TRUE(weights[0] == weights[2]);
}

TEST(MultiAgent, WhatDoesNotFitIsRefused) {
  testing::TempDir dir;
  TrainConfig c = config_for("multi:gather", "shared", dir.file("run"));
  c.env_args = {{"agents", "3"}};
  c.envs_per_actor = 8;
  c.steps = 10;
  EXPECT_NE(error_of([&] { run_quietly(c); }).find("multiple of 3"), std::string::npos);
  c = config_for("CartPole-v1", "independent", dir.file("other"));
  EXPECT_NE(error_of([&] { run_quietly(c); }).find("--policies"), std::string::npos);
  c.policies = "each";
  EXPECT_NE(error_of([&] { run_quietly(c); }).find("shared or independent"), std::string::npos);
}

}  // namespace
}  // namespace parl
