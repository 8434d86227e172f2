#include "parl/train/trainer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "parl/agent/nonfinite.h"
#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/models/policy.h"
#include "parl/remote/remote.h"
#include "parl/train/checkpoint.h"
#include "parl/train/metrics.h"
#include "parl/train/presets.h"
#include "parl/train/train_test_util.h"

namespace parl {
namespace {

namespace fs = std::filesystem;
using testing::curve;
using testing::final_weights;
using testing::run;
using testing::small_config;
using testing::SmallDisk;
using testing::TempDir;

TEST(Trainer, RunsCountsAndRecords) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  int64_t episodes = 0, updates = 0, checkpoints = 0;
  TrainHooks hooks;
  hooks.on_episode = [&](const Episode& e, int64_t) { episodes += e.length > 0; };
  hooks.on_update = [&](const UpdateInfo& u) { updates = u.updates; };
  hooks.on_checkpoint = [&](const std::string& path, int64_t) { checkpoints += fs::exists(path + "/state.bin"); };
  const TrainSummary s = run(c, hooks);
  EXPECT_EQ(s.stop_reason, "steps");
  EXPECT_EQ(s.steps, 2048);  // whole batches of 64
  EXPECT_EQ(s.updates, 32);
  EXPECT_EQ(updates, 32);
  EXPECT_EQ(s.episodes, episodes);
  EXPECT_GT(episodes, 10);
  EXPECT_EQ(checkpoints, 4);  // at 640, 1280, 1920 and the end
  EXPECT_NEAR(s.env_share + s.act_share + s.learn_share, 1, 1e-9);
  EXPECT_EQ(read_metrics(c.run + "/metrics.csv").rows.size(), 16u);
  const LoadedRun loaded = load_run(c.run);
  EXPECT_EQ(loaded.config.env, "CartPole-v1");
}

TEST(Trainer, DeterministicIsTheSameInEveryEngineAndForAnyPool) {
  TempDir dir;
  std::string first, weights;
  for (const char* engine : {"inline", "thread", "process"}) {
    TrainConfig c = small_config(dir.file(engine));
    c.deterministic = true;
    c.engine = engine;
    c.pool_threads = std::string(engine) == "thread" ? 2 : 1;
    run(c);
    if (first.empty()) {
      first = curve(c.run);
      weights = final_weights(c.run);
    }
    EXPECT_EQ(curve(c.run), first) << engine;
    EXPECT_EQ(final_weights(c.run), weights) << engine;
  }
  TrainConfig other = small_config(dir.file("seed"));
  other.deterministic = true;
  other.seed = 2;
  run(other);
  EXPECT_NE(curve(other.run), first);
}

TEST(Trainer, DeterministicLagIsExactlyOne) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  c.deterministic = true;
  std::vector<int64_t> lags;
  TrainHooks hooks;
  hooks.on_update = [&](const UpdateInfo& u) {
    const at::Tensor& v = u.batch->version;
    lags.push_back(u.updates - 1 - v.data_ptr<int64_t>()[0]);
    EXPECT_EQ(v.data_ptr<int64_t>()[0], v.data_ptr<int64_t>()[v.numel() - 1]);
  };
  run(c, hooks);
  EXPECT_EQ(lags.at(0), 0);
  for (size_t i = 1; i < lags.size(); ++i) EXPECT_EQ(lags[i], 1);
}

TEST(Trainer, LagZeroMeansOnPolicy) {
  for (const bool deterministic : {false, true}) {
    TempDir dir;
    TrainConfig c = small_config(dir.file("run"));
    c.deterministic = deterministic;
    c.max_lag = 0;
    TrainHooks hooks;
    hooks.on_update = [&](const UpdateInfo& u) {
      EXPECT_TRUE((u.batch->version == u.updates - 1).all().item<bool>()) << u.updates;
      for (const auto& [name, value] : *u.stats) {
        if (name == "policy_lag_max") {
          EXPECT_EQ(value, 0);
        }
      }
    };
    const TrainSummary s = run(c, hooks);
    EXPECT_EQ(s.steps, 2048);
    EXPECT_EQ(s.dropped_rollouts, 0);
  }
}

TEST(Trainer, AFailedActorIsReplacedOnPolicyToo) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  c.max_lag = 0;
  c.env = "Scripted-v0";
  c.env_args = {{"fault", "throw"}, {"at", "4"}, {"marker", dir.file("marker")}, {"limit", "9"}};
  const TrainSummary s = run(c);
  EXPECT_EQ(s.actors_replaced, 1);
  EXPECT_EQ(s.steps, 2048);
}

class Continuing : public ::testing::TestWithParam<int64_t> {};  // max_lag

TEST_P(Continuing, EqualsNeverStopping) {
  TempDir dir;
  TrainConfig whole = small_config(dir.file("whole"));
  whole.deterministic = true;
  whole.max_lag = GetParam();
  whole.log_steps = 192;
  run(whole);
  TrainConfig parts = whole;
  parts.run = dir.file("parts");
  parts.steps = 1'000;  // stops at 1,024: not at a multiple of anything
  run(parts);
  EXPECT_EQ(read_metrics(parts.run + "/metrics.csv").column("steps").back(), 1024);  // the curve has its end
  parts.steps = whole.steps;
  const TrainSummary s = run(parts);
  EXPECT_EQ(s.steps, 2048);
  EXPECT_EQ(curve(parts.run), curve(whole.run));
  EXPECT_EQ(final_weights(parts.run), final_weights(whole.run));
  EXPECT_EQ(run(parts).updates, s.updates);  // nothing left to do
}

INSTANTIATE_TEST_SUITE_P(MaxLag, Continuing, ::testing::Values(0, 8));

TEST(Trainer, ContinuesUnderAnotherRegime) {
  struct Regime {
    bool deterministic;
    int64_t max_lag;
  };
  const Regime regimes[] = {{false, 8}, {false, 0}, {true, 8}, {true, 0}};
  for (const Regime& before : regimes) {
    for (const Regime& after : regimes) {
      TempDir dir;
      TrainConfig c = small_config(dir.file("run"));
      c.deterministic = before.deterministic, c.max_lag = before.max_lag, c.steps = 300;
      run(c);
      c.deterministic = after.deterministic, c.max_lag = after.max_lag, c.steps = 1'000;
      EXPECT_EQ(run(c).updates, 16) << before.deterministic << before.max_lag << after.deterministic << after.max_lag;
    }
  }
}

// A row that falls due with the last update is the curve's end already.
TEST(Trainer, TheLastRowIsWrittenOnce) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  c.log_steps = 100;  // due at 2,048, the first update past 2,000
  run(c);
  const auto steps = read_metrics(c.run + "/metrics.csv").column("steps");
  EXPECT_EQ(steps.back(), 2048);
  EXPECT_EQ(std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()), steps.end());
  EXPECT_FALSE(load_checkpoint(*latest_checkpoint(c.run)).progress.partial_row);
}

TEST(Trainer, NothingToDoChangesNothing) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  c.steps = 300;
  run(c);
  const std::string config = read_file(c.run + "/config.json"), metrics = read_file(c.run + "/metrics.csv");
  c.settings.as<ImpalaConfig>().lr = 0.5;
  EXPECT_EQ(run(c).updates, 5);
  EXPECT_EQ(read_file(c.run + "/config.json"), config);
  EXPECT_EQ(read_file(c.run + "/metrics.csv"), metrics);
}

// A deterministic run that kills its own process after an update between two checkpoints; started by the tests below.
TrainConfig victim_config(const std::string& env, const std::string& run_dir) {
  TrainConfig c = small_config(run_dir);
  c.env = env;
  c.deterministic = true;
  if (env != "CartPole-v1") {
    c.env_args = {{"preset", "parl"}};
    c.model = "auto";
    c.steps = 1'280;
    c.checkpoint_steps = 320;
    c.settings.as<ImpalaConfig>().learner_threads = 2;
  }
  c.log_steps = 192;  // checkpoints are not at rows
  return c;
}

TEST(Victim, DISABLED_KillsItself) {
  TrainHooks hooks;
  hooks.on_update = [](const UpdateInfo& u) {
    if (u.updates == 13) kill(getpid(), SIGKILL);
  };
  run(victim_config(std::getenv("PARL_TEST_ENV"), std::getenv("PARL_TEST_RUN")), hooks);
}

class Killed : public ::testing::TestWithParam<const char*> {};

TEST_P(Killed, ContinuesToTheSameCurve) {
  TempDir dir;
  const TrainConfig whole = victim_config(GetParam(), dir.file("whole"));
  try {
    run(whole);
  } catch (const Error& error) {
    if (std::string(error.what()).find("there is no environment") != std::string::npos)
      GTEST_SKIP() << "built without Atari";
    throw;
  }
  const TrainConfig killed = victim_config(GetParam(), dir.file("killed"));
  const std::string command = fmt::format(
      "PARL_TEST_ENV={} PARL_TEST_RUN={} {} --gtest_also_run_disabled_tests --gtest_filter=Victim.* >/dev/null 2>&1",
      killed.env, killed.run, fs::read_symlink("/proc/self/exe").string());
  EXPECT_NE(std::system(command.c_str()), 0);
  ASSERT_TRUE(latest_checkpoint(killed.run));
  EXPECT_LT(load_checkpoint(*latest_checkpoint(killed.run)).progress.updates, 13);
  run(killed);
  EXPECT_EQ(curve(killed.run), curve(whole.run));
  EXPECT_EQ(final_weights(killed.run), final_weights(whole.run));
}

INSTANTIATE_TEST_SUITE_P(Environments, Killed, ::testing::Values("CartPole-v1", "atari:pong"), [](const auto& info) {
  return std::string(info.param).substr(0, 5) == "atari" ? "Pong" : "CartPole";
});

TEST(Trainer, AFullDiskIsAnErrorAndTheLastCheckpointStays) {
  SmallDisk disk(72 * 1024);  // a run wants 64 MiB to start
  if (!disk.mounted()) GTEST_SKIP() << "only root may mount a small file system";
  TrainConfig c = small_config(disk.file("run"));
  c.deterministic = true;
  TrainHooks hooks;
  hooks.on_checkpoint = [&](const std::string&, int64_t) { disk.fill(); };
  try {
    run(c, hooks);
    FAIL() << "nobody noticed the full disk";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(c.run), std::string::npos) << error.what();
  }
  EXPECT_EQ(load_checkpoint(*latest_checkpoint(c.run)).progress.steps, 640);
  disk.make_room();
  EXPECT_EQ(run(c).steps, 2048);
  TempDir dir;
  TrainConfig undisturbed = small_config(dir.file("run"));
  undisturbed.deterministic = true;
  run(undisturbed);
  EXPECT_EQ(curve(c.run), curve(undisturbed.run));
  EXPECT_EQ(final_weights(c.run), final_weights(undisturbed.run));
}

TEST(Trainer, StopFlagEndsCleanlyWithACheckpoint) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  std::atomic<bool> stop{false};
  TrainHooks hooks;
  hooks.stop = &stop;
  hooks.on_update = [&](const UpdateInfo& u) { stop = u.updates == 5; };
  const TrainSummary s = run(c, hooks);
  EXPECT_EQ(s.stop_reason, "interrupted");
  EXPECT_EQ(s.updates, 5);
  EXPECT_EQ(load_checkpoint(*latest_checkpoint(c.run)).progress.updates, 5);
  EXPECT_EQ(run(c).updates, 32);
}

// An environment that hangs holds up neither Ctrl-C nor its checkpoint.
TEST(Trainer, StopsWhileAnEnvironmentHangs) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  c.engine = "process";
  c.max_lag = 0;
  c.env = "Scripted-v0";
  c.env_args = {{"fault", "hang"}, {"at", "4"}, {"marker", dir.file("marker")}, {"limit", "500"}};
  std::atomic<bool> stop{false};
  TrainHooks hooks;
  hooks.stop = &stop;
  std::thread presser([&] {
    while (!fs::exists(dir.file("marker"))) std::this_thread::yield();
    stop = true;
  });
  EXPECT_EQ(run(c, hooks).stop_reason, "interrupted");
  presser.join();
  EXPECT_TRUE(latest_checkpoint(c.run));
}

TEST(Trainer, AnActorThatTakesTooLongIsReplaced) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  c.engine = "process";
  c.env = "Scripted-v0";
  c.env_args = {{"fault", "hang"}, {"at", "4"}, {"marker", dir.file("marker")}, {"limit", "500"}};
  c.max_lag = 0;  // so that the run cannot go on without it
  c.actor_timeout = 5;
  const TrainSummary s = run(c);
  EXPECT_EQ(s.actors_replaced, 1);
  EXPECT_EQ(s.steps, 2048);
}

class Faults : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Faults, AFailedActorIsReplacedAndCounted) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  c.engine = GetParam().first;
  c.env = "Scripted-v0";
  c.env_args = {{"fault", GetParam().second}, {"at", "4"}, {"marker", dir.file("marker")}, {"limit", "9"}};
  const TrainSummary s = run(c);
  EXPECT_EQ(s.actors_replaced, 1);
  EXPECT_EQ(s.steps, 2048);
  EXPECT_TRUE(fs::exists(dir.file("marker")));
}

INSTANTIATE_TEST_SUITE_P(Engines, Faults,
                         ::testing::Values(std::pair{"thread", "throw"}, std::pair{"process", "throw"},
                                           std::pair{"process", "kill"}),
                         [](const auto& info) { return std::string(info.param.first) + "_" + info.param.second; });

TEST(Trainer, TooManyFailuresEndTheRunWithTheirError) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  testing::expect_too_many_failures_end(c, [](const TrainConfig& broken) { run(broken); });
}

TEST(Trainer, WhatWasLearntIsSavedWhenNoActorIsLeft) {
  TempDir dir;
  for (const bool deterministic : {false, true}) {
    TrainConfig c = small_config(dir.file(deterministic ? "d" : "f"));
    c.deterministic = deterministic;
    c.env = "Scripted-v0";
    c.env_args = {{"fault", "throw"}, {"at", "40"}, {"marker", "/nonexistent/folder/marker"}, {"limit", "500"}};
    c.max_replacements = 0;
    EXPECT_THROW(run(c), Error);
    ASSERT_TRUE(latest_checkpoint(c.run));
    EXPECT_GT(load_checkpoint(*latest_checkpoint(c.run)).progress.updates, 0);
    c.env_args["at"] = "501";
    EXPECT_THROW(run(c), Error);  // other env-args
  }
}

TEST(Trainer, NanStopsTheRunWithNameAndDump) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  c.env = "Scripted-v0";
  c.env_args = {{"fault", "nan"}, {"at", "3"}, {"marker", dir.file("marker")}};
  EXPECT_THROW(run(c), NonFiniteError);
  bool dumped = false;
  for (const auto& entry : fs::directory_iterator(c.run)) {
    dumped |= entry.path().filename().string().rfind("nonfinite_", 0) == 0;
  }
  EXPECT_TRUE(dumped);
}

TEST(Trainer, UserScalarsReachTheMetrics) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  c.env = "Scripted-v0";
  run(c);
  const auto level = read_metrics(c.run + "/metrics.csv").column("env/level");
  EXPECT_GT(level.back(), level.front());
}

TEST(Trainer, RefusesWhatDoesNotFit) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  c.settings.as<ImpalaConfig>().minibatches = 64;
  EXPECT_THROW(run(c), Error);
  c = small_config("");
  EXPECT_THROW(run(c), Error);
  c = small_config(dir.file("run"));
  c.steps = 100;
  run(c);
  c.env = "Acrobot-v1";
  EXPECT_THROW(run(c), Error);  // another environment in the same directory
  c = small_config(dir.file("other"));
  c.max_lag = -1;
  EXPECT_THROW(run(c), Error);
  c.max_lag = 0, c.batch_rollouts = 1;
  EXPECT_THROW(run(c), Error);
  for (int64_t TrainConfig::*field : {&TrainConfig::actors, &TrainConfig::envs_per_actor, &TrainConfig::pool_threads}) {
    c = small_config(dir.file("other"));
    c.*field = int64_t{1} << 32;
    EXPECT_THROW(run(c), Error);
  }
  c = small_config(dir.file("other"));
  c.engine = "proces";
  EXPECT_THROW(run(c), Error);
  for (const char* model : {"no such network", "nature"}) {  // the latter wants pictures
    c = small_config(dir.file("other"));
    c.model = model;
    EXPECT_THROW(run(c), std::exception);
  }
  c = small_config(dir.file("other"));
  c.init_from = dir.file("nowhere");
  EXPECT_THROW(run(c), Error);
  EXPECT_FALSE(fs::exists(dir.file("other")));
}

TEST(Trainer, BeginsWithTheWeightsOfAnotherRun) {
  TempDir dir;
  TrainConfig first = small_config(dir.file("first"));
  run(first);
  TrainConfig second = small_config(dir.file("second"));
  second.init_from = *latest_checkpoint(first.run);
  second.settings.as<ImpalaConfig>().lr = 0;
  second.seed = 7;
  run(second);
  EXPECT_EQ(final_weights(first.run), final_weights(second.run));

  TrainConfig other = small_config(dir.file("other"));
  other.init_from = first.run;
  other.env = "Acrobot-v1";
  EXPECT_THROW(run(other), Error);
  other.init_from = dir.file("nowhere");
  EXPECT_THROW(run(other), Error);

  const auto policy = load_policy(first.run);
  EXPECT_EQ(policy->spec().obs_shape, std::vector<int64_t>{4});
  EXPECT_EQ(policy->spec().num_actions, 2);
}

TEST(Trainer, LearnsCartPole) {
  TempDir dir;
  TrainConfig c;
  c.env = "CartPole-v1";
  apply_preset(c, default_preset(c.env, c.algorithm));
  c.run = dir.file("run");
  c.deterministic = true;
  c.steps = 1'000'000;
  c.until_return = 475;
  EXPECT_EQ(run(c).stop_reason, "until_return");
}

TEST(Trainer, EvaluationsReachTheMetricsAndTheBestCheckpoint) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("run"));
  c.eval_steps = 640;
  c.eval_episodes = 3;
  c.checkpoint_steps = 100'000;
  run(c);
  const auto eval = read_metrics(c.run + "/metrics.csv").column("eval_return");
  EXPECT_EQ(std::count_if(eval.begin(), eval.end(), [](double v) { return !std::isnan(v); }), 3);
  const auto steps = read_metrics(c.run + "/metrics.csv").column("steps");
  size_t best = 0;
  for (size_t i = 0; i < eval.size(); ++i) {
    if (std::isnan(eval[best]) || eval[i] > eval[best]) best = i;
  }
  const Checkpoint saved = load_checkpoint(c.run + "/checkpoints/best");
  EXPECT_EQ(saved.progress.best_return, eval[best]);
  EXPECT_EQ(static_cast<double>(saved.progress.steps), steps[best]);  // the weights that were evaluated
}

}  // namespace
}  // namespace parl
