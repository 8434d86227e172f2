#include "parl/train/central_source.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <thread>
#include <tuple>

#include "parl/agent/nonfinite.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/ga3c.h"
#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/data/batch_buffer.h"
#include "parl/train/actor_pool.h"
#include "parl/train/checkpoint.h"
#include "parl/train/metrics.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/train_test_util.h"
#include "parl/train/trainer.h"

namespace parl {
namespace {

namespace fs = std::filesystem;
using testing::final_weights;
using testing::TempDir;

constexpr int kActors = 3;

std::vector<ActorConfig> configs(const std::string& env, int64_t envs, int64_t length,
                                 const std::string& model = "mlp") {
  std::vector<ActorConfig> out;
  for (int i = 0; i < kActors; ++i) {
    ActorConfig c;
    c.env = env;
    c.model = model;
    c.algorithm = "ga3c";
    c.actor = i;
    c.envs = envs;
    c.first_env = i * envs;
    c.length = length;
    c.seed = 3;
    out.push_back(c);
  }
  return out;
}

// A source over three actors, with weights of version 0.
struct Central {
  explicit Central(const std::vector<ActorConfig>& configs, RolloutSource::Options options = {},
                   CentralOptions central = {})
      : env(program().envs.make({.id = configs[0].env, .args = configs[0].env_args})->spec()), model(configs[0].model) {
    options.actors = kActors;
    const ModelSpec spec = model_spec_of(env);
    source = std::make_unique<CentralSource>(manager, options, central, configs, env, [&] {
      return program().algorithm("ga3c").make_actor(program().models.make(model, spec), Ga3cConfig{});
    });
  }
  Weights weights(uint64_t seed = 5) const {
    torch::manual_seed(seed);
    return program().models.make(model, model_spec_of(env))->get_weights();
  }
  RemoteManager manager{"thread"};
  EnvSpec env;
  std::string model;
  std::unique_ptr<CentralSource> source;
};

RolloutSource::Options lock_step() {
  RolloutSource::Options options;
  options.deterministic = true;
  return options;
}

std::function<bool()> never() {
  return [] { return false; };
}

at::Tensor row(const Array& obs, int64_t t) { return tensor_view(obs).select(1, t); }

TEST(CentralSource, ShapesEndsAndContinuity) {
  Central c(configs("Scripted-v0", 2, 7));
  c.source->start();
  c.source->publish(0, c.weights());
  Array last_obs;
  for (int64_t k = 0; k < 3; ++k) {
    Rollout r = *c.source->next_from(1, never());
    EXPECT_EQ(r.actor, 1);
    EXPECT_EQ(r.sequence, k);
    EXPECT_EQ(r.version, 0);
    EXPECT_EQ(r.obs.shape(), (Shape{2, 8, 2}));
    EXPECT_EQ(r.action.shape(), (Shape{2, 7}));
    EXPECT_EQ(r.behaviour_logits.shape(), (Shape{2, 7, 2}));
    EXPECT_EQ(r.reward.shape(), (Shape{2, 7}));
    if (k > 0) {
      EXPECT_TRUE(row(last_obs, 7).equal(row(r.obs, 0)));
    }
    if (k == 0) {  // episode 0 truncates at its fifth step; the final observation is kept
      EXPECT_TRUE(r.truncated.data<bool>()[4]);
      EXPECT_EQ(r.reward.data<float>()[4], 5);
      ASSERT_EQ(r.final_index.size(), 2);
      EXPECT_EQ(r.final_index.data<int64_t>()[1], 7 + 4);
      EXPECT_EQ(tensor_view(r.final_obs)[1][1].item<float>(), 5);
      EXPECT_EQ(tensor_view(r.obs)[1][5][0].item<float>(), 1);  // the reset observation of episode 1
      ASSERT_EQ(r.episodes.size(), 2u);
      EXPECT_EQ(r.episodes[0].raw_return, 15);
    }
    last_obs = r.obs;
    std::vector<Rollout> one;
    one.push_back(std::move(r));
    BatchBuffer().assemble(one).check();
  }
  const LearnStats stats = c.source->take_statistics();
  ASSERT_EQ(stats.size(), 3u);
  EXPECT_EQ(stats[0].first, "prediction_batch");
  EXPECT_GE(stats[0].second, 2);
  EXPECT_LE(stats[0].second, 6);
}

// The same seeds give what actors with networks of their own give, the memories that they start from included.
TEST(CentralSource, LockStepEqualsActors) {
  for (const auto& [env, model] : {std::pair{"CartPole-v1", "mlp"}, std::pair{"Pendulum-v1", "mlp"},
                                   std::pair{"CartPole-v1", "mlp_lstm"}, std::pair{"Pendulum-v1", "mlp_lstm"}}) {
    SCOPED_TRACE(fmt::format("{} {}", env, model));
    const auto actors = configs(env, 2, 60, model);
    Central central(actors, lock_step());
    RemoteManager manager("thread");
    RolloutSource::Options options = lock_step();
    options.actors = kActors;
    ActorPool pool(manager, options, actors);
    for (RolloutSource* source :
         {static_cast<RolloutSource*>(central.source.get()), static_cast<RolloutSource*>(&pool)}) {
      source->start();
      source->publish(0, central.weights());
      source->publish(1, central.weights(6));
    }
    for (int64_t k = 0; k < 3; ++k) {
      for (int i = 0; i < kActors; ++i) {
        const Rollout a = *central.source->next_from(i, never()), b = *pool.next_from(i, never());
        EXPECT_EQ(a.version, b.version);
        EXPECT_EQ(a.version, std::max<int64_t>(0, k - 1));
        EXPECT_TRUE(central.env.id != "CartPole-v1" || a.action == b.action) << k << " " << i;
        EXPECT_TRUE(
            at::allclose(tensor_view(a.action).to(at::kFloat), tensor_view(b.action).to(at::kFloat), 2e-2, 2e-2));
        EXPECT_TRUE(at::allclose(tensor_view(a.obs), tensor_view(b.obs), 2e-2, 2e-2));
        EXPECT_TRUE(at::allclose(tensor_view(a.behaviour_logits), tensor_view(b.behaviour_logits), 2e-2, 2e-2));
        EXPECT_TRUE(at::allclose(tensor_view(a.reward), tensor_view(b.reward), 2e-2, 2e-2));
        ASSERT_EQ(a.state.shape(), b.state.shape());
        if (central.model == "mlp") continue;
        EXPECT_TRUE(at::allclose(tensor_view(a.state), tensor_view(b.state), 2e-2, 2e-2));
        EXPECT_EQ(tensor_view(a.state).abs().max().item<float>() > 0.01, k > 0);
      }
    }
    central.source->stop();
  }
}

TEST(CentralSource, OneVersionPerRolloutOnPolicy) {
  RolloutSource::Options options;
  options.on_policy = true;
  CentralOptions central;
  central.predictors = 2;
  Central c(configs("CartPole-v1", 2, 5), options, central);
  c.source->start();
  for (int64_t version = 0; version < 4; ++version) {
    c.source->publish(version, c.weights());
    for (int i = 0; i < kActors; ++i) EXPECT_EQ(c.source->next(never())->version, version);
  }
}

TEST(CentralSource, AStoppedSourceEndsInTheMiddle) {
  Central c(configs("CartPole-v1", 2, 1'000'000));  // nobody finishes such a rollout
  c.source->start();
  c.source->publish(0, c.weights());
  EXPECT_FALSE(c.source->next([&] { return c.source->take_statistics().size() > 0; }));  // they are at work
  c.source->stop();
  EXPECT_FALSE(c.source->next(never()));
}

TEST(CentralSource, ANetworkThatDivergedIsAnErrorByThatName) {
  Central c(configs("CartPole-v1", 2, 5));
  c.source->start();
  Weights weights = c.weights();
  for (NamedArray& entry : weights.entries) {
    for (float& value : entry.array.span<float>()) value = std::nanf("");
  }
  c.source->publish(0, std::move(weights));
  EXPECT_THROW(c.source->next(never()), NonFiniteError);
}

TrainSummary run(const TrainConfig& config, TrainHooks hooks = {}) {
  hooks.show_status = false;
  return train(config, hooks);
}

TrainConfig small_ga3c(const std::string& run) {
  TrainConfig c = program().config_of("ga3c");
  c.env = "CartPole-v1";
  apply_preset(c, "classic");
  c.run = run;
  c.steps = 2'000;
  c.log_steps = 256;
  c.checkpoint_steps = 640;
  return c;
}

TEST(Ga3c, RunsInEveryEngineAndReportsItsQueues) {
  TempDir dir;
  for (const char* engine : {"inline", "thread", "process"}) {
    TrainConfig c = small_ga3c(dir.file(engine));
    c.engine = engine;
    c.settings.as<Ga3cConfig>().predictors = 2;
    c.settings.as<Ga3cConfig>().prediction_wait = 0.5;
    EXPECT_EQ(run(c).stop_reason, "steps") << engine;
    const MetricsTable table = read_metrics(c.run + "/metrics.csv");
    EXPECT_GE(table.column("prediction_batch").front(), 4);
    EXPECT_LE(table.column("prediction_queue").front(), 1);
    EXPECT_LE(table.column("policy_lag_max").back(), c.max_lag);
  }
}

TEST(Ga3c, DeterministicRunsAreEqualInEveryEngineAndContinueToTheBit) {
  TempDir dir;
  TrainConfig whole = small_ga3c(dir.file("whole"));
  whole.deterministic = true;
  run(whole);
  TrainConfig processes = small_ga3c(dir.file("processes"));
  processes.deterministic = true;
  processes.engine = "process";
  run(processes);
  EXPECT_EQ(final_weights(whole.run), final_weights(processes.run));
  TrainConfig parts = small_ga3c(dir.file("parts"));
  parts.deterministic = true;
  parts.steps = 900;
  run(parts);
  parts.steps = whole.steps;
  run(parts);
  EXPECT_EQ(final_weights(whole.run), final_weights(parts.run));
}

TEST(Ga3c, OldRolloutsAreDroppedAndCounted) {
  TempDir dir;
  TrainConfig c = small_ga3c(dir.file("run"));
  c.max_lag = 1;
  c.batch_rollouts = 1;  // an update for every rollout: who is not quick is old
  const TrainSummary s = run(c);
  EXPECT_GT(s.dropped_rollouts, 0);
  EXPECT_LE(read_metrics(c.run + "/metrics.csv").column("policy_lag_max").back(), 1);
}

class Ga3cFaults : public ::testing::TestWithParam<std::tuple<const char*, const char*, bool>> {};

// The environment fails in the middle of a step, while the others are predicted for.
TEST_P(Ga3cFaults, ASimulatorIsReplacedAndCounted) {
  const auto [engine, fault, deterministic] = GetParam();
  TempDir dir;
  TrainConfig c = small_ga3c(dir.file("run"));
  c.engine = engine;
  c.deterministic = deterministic;
  c.env = "Scripted-v0";
  c.env_args = {{"fault", fault}, {"at", "4"}, {"marker", dir.file("marker")}, {"limit", "9"}};
  const TrainSummary s = run(c);
  EXPECT_EQ(s.actors_replaced, 1);
  EXPECT_GE(s.steps, 2'000);
  EXPECT_TRUE(fs::exists(dir.file("marker")));
}

INSTANTIATE_TEST_SUITE_P(Engines, Ga3cFaults,
                         ::testing::Values(std::tuple{"thread", "throw", false}, std::tuple{"process", "kill", false},
                                           std::tuple{"process", "kill", true}),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param) +
                                  (std::get<2>(info.param) ? "_deterministic" : "");
                         });

TEST(Ga3c, TooManyFailuresEndTheRunWithTheirError) {
  TempDir dir;
  for (const bool deterministic : {false, true}) {
    TrainConfig c = small_ga3c(dir.file(deterministic ? "d" : "f"));
    c.deterministic = deterministic;
    testing::expect_too_many_failures_end(c, [](const TrainConfig& broken) { run(broken); });
  }
}

TEST(Ga3c, StopsWhileAnEnvironmentHangs) {
  TempDir dir;
  TrainConfig c = small_ga3c(dir.file("run"));
  c.engine = "process";
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

}  // namespace
}  // namespace parl
