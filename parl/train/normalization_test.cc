// Normalised observations and rewards through the whole loop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "parl/agent/recurrent.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/error_of.h"
#include "parl/core/files.h"
#include "parl/models/policy.h"
#include "parl/train/checkpoint.h"
#include "parl/train/evaluate.h"
#include "parl/train/program.h"
#include "parl/train/train_test_util.h"
#include "parl/train/trainer.h"

namespace parl {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::small_config;
using testing::TempDir;

TrainSummary run(const TrainConfig& config, TrainHooks hooks = {}) {
  hooks.show_status = false;
  return train(config, hooks);
}

TrainConfig normalized_config(const std::string& run_dir) {
  TrainConfig c = small_config(run_dir);
  c.deterministic = true;
  c.normalize_observations = c.normalize_rewards = true;
  return c;
}

std::string final_weights(const std::string& run_dir) {
  return read_file(*latest_checkpoint(run_dir) + "/weights.safetensors");
}

// Mean and variance by their definitions.
std::pair<double, double> moments_of(const std::vector<double>& values) {
  double mean = 0, variance = 0;
  for (const double v : values) mean += v / static_cast<double>(values.size());
  for (const double v : values) variance += (v - mean) * (v - mean) / static_cast<double>(values.size());
  return {mean, variance};
}

TEST(Normalization, ObservationsCountOnceAndFromTheNextVersionOn) {
  TempDir dir;
  TrainConfig c = normalized_config(dir.file("run"));
  c.max_lag = 0;
  c.steps = 600;
  ImpalaConfig& impala = c.settings.as<ImpalaConfig>();
  impala.epochs = impala.minibatches = 1, impala.clip = 0, impala.lr = 0.01, impala.learner_threads = 2;
  std::vector<double> seen;  // of the second number of each observation
  TrainHooks hooks;
  hooks.on_update = [&](const UpdateInfo& u) {
    const at::Tensor column = u.batch->obs.narrow(1, 0, 16).select(2, 1).contiguous();
    for (int64_t i = 0; i < column.numel(); ++i) seen.push_back(column.const_data_ptr<float>()[i]);
    for (const auto& [name, value] : *u.stats) {
      if (name == "rho_max_deviation") {
        EXPECT_LT(value, 1e-4);  // one version's statistics for acting and learning
      }
    }
  };
  run(c, hooks);
  ASSERT_EQ(seen.size(), 640u);
  const auto [mean, variance] = moments_of(seen);
  const Weights weights = load_checkpoint(*latest_checkpoint(c.run)).weights;
  const auto get = [&](const char* name) {
    return to_tensor(get_entry(weights, std::string("observations.") + name)).flatten();
  };
  EXPECT_EQ(get("count").item<double>(), 640);
  EXPECT_NEAR(get("mean")[1].item<double>(), mean, 1e-12);
  EXPECT_NEAR(get("variance")[1].item<double>(), variance, 1e-12);
}

// Scripted rewards are 1, 2, ... 5, then the episode ends.
TEST(Normalization, RewardsAreDividedByTheDeviationOfReturns) {
  TempDir dir;
  TrainConfig c = normalized_config(dir.file("run"));
  c.env = "Scripted-v0";
  c.settings.as<ImpalaConfig>().gamma = 0.9;
  c.steps = 200;
  std::vector<double> returns, so_far(4, 0);
  std::vector<int64_t> at(4, 0);
  int64_t updates = 0, episodes = 0;
  TrainHooks hooks;
  hooks.on_episode = [&](const Episode& e, int64_t) { episodes += e.raw_return == 15; };  // scores stay raw
  hooks.on_update = [&](const UpdateInfo& u) {
    ++updates;
    std::vector<double> rewards;
    for (size_t b = 0; b < 4; ++b) {
      for (int t = 0; t < 16; ++t) {
        rewards.push_back(static_cast<double>(at[b] + 1));
        so_far[b] = 0.9 * so_far[b] + rewards.back();
        returns.push_back(so_far[b]);
        at[b] = (at[b] + 1) % 5;
        if (at[b] == 0) so_far[b] = 0;
      }
    }
    const double deviation = std::sqrt(moments_of(returns).second);
    const float* learnt = u.batch->reward.const_data_ptr<float>();
    for (size_t i = 0; i < rewards.size(); ++i) ASSERT_NEAR(learnt[i], rewards[i] / deviation, 1e-5) << i;
  };
  run(c, hooks);
  EXPECT_EQ(updates, 4);
  EXPECT_GE(episodes, 48);
}

TrainConfig lstm_pendulum(const std::string& run_dir, int64_t max_lag) {
  TrainConfig c = normalized_config(run_dir);
  c.env = "Pendulum-v1";
  c.model = "mlp_lstm";
  c.max_lag = max_lag;
  c.env_args = {{"max_episode_steps", "37"}};
  return c;
}

class Continued : public ::testing::TestWithParam<int64_t> {};  // max_lag

TEST_P(Continued, EqualsNeverStoppingAndEngines) {
  TempDir dir;
  const TrainConfig whole = lstm_pendulum(dir.file("whole"), GetParam());
  run(whole);
  TrainConfig parts = lstm_pendulum(dir.file("parts"), GetParam());
  parts.engine = "process";
  parts.steps = 1'000;
  run(parts);
  parts.steps = whole.steps;
  parts.engine = "inline";
  run(parts);
  EXPECT_EQ(final_weights(parts.run), final_weights(whole.run));
}

INSTANTIATE_TEST_SUITE_P(MaxLag, Continued, ::testing::Values(0, 8));

TEST(NormalizedVictim, DISABLED_KillsItself) {
  TrainHooks hooks;
  hooks.on_update = [](const UpdateInfo& u) {
    if (u.updates == 13) kill(getpid(), SIGKILL);
  };
  run(lstm_pendulum(std::getenv("PARL_TEST_RUN"), 8), hooks);
}

TEST(Normalization, AKilledRunContinuesToTheBit) {
  TempDir dir;
  const TrainConfig whole = lstm_pendulum(dir.file("whole"), 8), killed = lstm_pendulum(dir.file("killed"), 8);
  run(whole);
  const std::string command = fmt::format(
      "PARL_TEST_RUN={} {} --gtest_also_run_disabled_tests --gtest_filter=NormalizedVictim.* >/dev/null 2>&1",
      killed.run, fs::read_symlink("/proc/self/exe").string());
  EXPECT_NE(std::system(command.c_str()), 0);
  ASSERT_TRUE(latest_checkpoint(killed.run));
  EXPECT_LT(load_checkpoint(*latest_checkpoint(killed.run)).progress.updates, 13);
  run(killed);
  EXPECT_EQ(final_weights(killed.run), final_weights(whole.run));
}

TEST(Normalization, EvaluationAndTheSavedPolicySeeItFrozen) {
  TempDir dir;
  TrainConfig c = normalized_config(dir.file("run"));
  c.steps = 600;
  run(c);
  const LoadedRun loaded = load_run(c.run);
  const auto policy = load_policy(c.run);
  const at::Tensor obs = torch::randn({5, 4});
  const at::Tensor logits = loaded.algorithm->predict(obs).logits;
  EXPECT_TRUE(policy->forward(obs).logits.equal(logits));
  EvalOptions options;
  options.env = c.env;
  options.episodes = 3;
  evaluate(*loaded.algorithm, options);
  EXPECT_TRUE(loaded.algorithm->predict(obs).logits.equal(logits));
  // By hand, from the file: the statistics do something.
  const Weights weights = load_checkpoint(loaded.checkpoint).weights;
  Weights network;
  for (const NamedArray& entry : weights.entries) {
    const std::string prefix = "network.";
    if (entry.name.starts_with(prefix)) network.entries.push_back({entry.name.substr(prefix.size()), entry.array});
  }
  const auto model = program().models.make(c.model, {{4}, DType::kF32, 2, 0});
  model->set_weights(network);
  const at::Tensor mean = to_tensor(get_entry(weights, "observations.mean")),
                   variance = to_tensor(get_entry(weights, "observations.variance"));
  const torch::NoGradGuard no_grad;
  const at::Tensor x = ((obs.to(at::kDouble) - mean) / (variance + 1e-8).sqrt()).to(at::kFloat).clamp(-10, 10);
  EXPECT_TRUE(at::allclose(model->forward(x).logits, logits, 1e-5, 1e-6));
  EXPECT_FALSE(at::allclose(model->forward(obs).logits, logits, 1e-5, 1e-6));
}

TEST(Normalization, ServesActionsOfSeveralNumbers) {
  ModelSpec spec{{4}, DType::kF32, 5, 0};
  spec.action_choices = {3, 2};
  for (const auto& [algorithm, model] : {std::pair{"ppo", "mlp"}, {"a2c", "mlp_lstm"}}) {
    TrainConfig c = program().config_of(algorithm);
    c.normalize_observations = true;
    c.model = model;
    torch::manual_seed(3);
    const auto learner = program().algorithm(algorithm).make_learner(program().models.factory(c.network()), spec, c);
    ActInput in{torch::randn({6, 4}), torch::rand({6, 2})};
    if (RecurrentModel* recurrent = learner->model().recurrent()) in.state = recurrent->initial_state(6);
    EXPECT_EQ(learner->act(in).action.sizes(), (std::vector<int64_t>{6, 2})) << model;
  }
}

TEST(Normalization, WhatDoesNotFitIsRefused) {
  TempDir dir;
  TrainConfig c = program().config_of("dqn");
  c.env = "CartPole-v1", c.run = dir.file("dqn"), c.normalize_rewards = true;
  EXPECT_THAT(error_of([&] { run(c); }), HasSubstr("--normalize-rewards"));
  EXPECT_FALSE(fs::exists(dir.file("dqn")));
  c = normalized_config(dir.file("catch"));
  c.env = "pixel:catch", c.model = "minatar";
  EXPECT_THAT(error_of([&] { run(c); }), HasSubstr("--normalize-observations"));
  c = normalized_config(dir.file("run"));
  c.steps = 100;
  run(c);
  c.normalize_observations = false;
  EXPECT_THAT(error_of([&] { run(c); }), HasSubstr("--normalize-observations"));
}

}  // namespace
}  // namespace parl
