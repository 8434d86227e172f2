#include "parl/train/es_trainer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "parl/algorithms/es.h"
#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/models/policy.h"
#include "parl/train/checkpoint.h"
#include "parl/train/es_worker.h"
#include "parl/train/metrics.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/train_test_util.h"

namespace parl {
namespace {

namespace fs = std::filesystem;
using testing::TempDir;

TrainSummary run(const TrainConfig& config, TrainHooks hooks = {}) {
  hooks.show_status = false;
  return train(config, hooks);
}

TrainConfig small_es(const std::string& run) {
  TrainConfig c = program().config_of("es");
  c.env = "CartPole-v1";
  apply_preset(c, "classic");
  c.run = run;
  c.steps = 2'000;
  c.log_steps = 500;
  c.checkpoint_steps = 700;
  EsConfig& es = c.settings.as<EsConfig>();
  es.pairs = 5;
  es.noise_table = 50'000;
  return c;
}

// The curve and the network, without times.
std::string outcome(const std::string& run_dir) {
  const MetricsTable table = read_metrics(run_dir + "/metrics.csv");
  std::string out = read_file(*latest_checkpoint(run_dir) + "/weights.safetensors");
  for (const char* name :
       {"steps", "updates", "episodes", "return_mean_100", "return_mean", "grad_norm", "weight_norm"}) {
    for (const double value : table.column(name)) out += fmt::format(" {}", value);
  }
  return out;
}

TEST(Es, IsTheSameInEveryEngineForAnyNumberOfWorkers) {
  TempDir dir;
  const TrainConfig one = small_es(dir.file("one"));
  const TrainSummary s = run(one);
  EXPECT_EQ(s.stop_reason, "steps");
  EXPECT_GE(s.steps, 2'000);
  EXPECT_EQ(s.episodes % 10, 0);
  for (const char* engine : {"inline", "process"}) {
    TrainConfig other = small_es(dir.file(engine));
    other.engine = engine;
    other.actors = 3;
    run(other);
    EXPECT_EQ(outcome(one.run), outcome(other.run)) << engine;
  }
}

TEST(Es, ContinuesToTheBitWithOtherWorkers) {
  TempDir dir;
  const TrainConfig whole = small_es(dir.file("whole"));
  run(whole);
  TrainConfig parts = small_es(dir.file("parts"));
  std::atomic<bool> stop{false};
  TrainHooks hooks;
  hooks.stop = &stop;
  hooks.on_update = [&](const UpdateInfo& u) { stop = u.updates == 3; };
  EXPECT_EQ(run(parts, hooks).stop_reason, "interrupted");
  parts.actors = 1;
  run(parts);
  EXPECT_EQ(outcome(whole.run), outcome(parts.run));
}

TEST(Es, AWorkerThatDiesIsReplacedAndNothingChanges) {
  TempDir dir;
  TrainConfig c = small_es(dir.file("whole"));
  c.env = "Scripted-v0";
  c.env_args = {{"limit", "9"}};
  c.engine = "process";
  c.settings.as<EsConfig>().weight_decay = 0.1;
  c.steps = 600;
  run(c);
  TrainConfig killed = c;
  killed.run = dir.file("killed");
  killed.env_args = {{"limit", "9"}, {"fault", "kill"}, {"at", "4"}, {"marker", dir.file("marker")}};
  EXPECT_EQ(run(killed).actors_replaced, 1);
  EXPECT_TRUE(fs::exists(dir.file("marker")));
  EXPECT_EQ(outcome(c.run), outcome(killed.run));
  killed.run = dir.file("hung");
  killed.env_args = {{"limit", "9"}, {"fault", "hang"}, {"at", "4"}, {"marker", dir.file("second")}};
  killed.actor_timeout = 2;
  EXPECT_EQ(run(killed).actors_replaced, 1);
  EXPECT_EQ(outcome(c.run), outcome(killed.run));
}

TEST(Es, TooManyFailuresEndTheRun) {
  TempDir dir;
  TrainConfig c = small_es(dir.file("run"));
  testing::expect_too_many_failures_end(c, [](const TrainConfig& broken) { run(broken); });
}

TEST(EsWorker, EpisodesDependOnTheirNumbersAlone) {
  ActorConfig config;
  config.env = "Pendulum-v1";  // continuous actions
  config.model = "mlp";
  config.seed = 3;
  config.settings = R"({"episodes": 3, "noise_table": 50000})";
  const auto env = program().envs.make({.id = config.env});
  const Versioned<Weights> weights(0, program().models.make("mlp", model_spec_of(env->spec()))->get_weights());
  const EsOutcome whole = EsWorker(config).evaluate(weights, {7, 0, 3});
  config.envs = 2;  // two of an episode's three at once
  EsWorker other(config);
  other.evaluate(weights, {6, 0, 1});
  const EsOutcome part = other.evaluate(weights, {7, 1, 1});
  ASSERT_EQ(whole.returns.size(), 6u);
  ASSERT_EQ(part.returns.size(), 2u);
  EXPECT_NEAR(part.returns[0], whole.returns[2], 0.05);  // batches of another size round differently
  EXPECT_NEAR(part.returns[1], whole.returns[3], 0.05);
  EXPECT_NE(whole.returns[0], whole.returns[1]);
  EXPECT_EQ(whole.steps, 3 * 2 * 3 * 200);
  EXPECT_EQ(whole.episodes.size(), 18u);
}

TEST(Es, SolvesCartPole) {
  TempDir dir;
  TrainConfig c = program().config_of("es");
  c.env = "CartPole-v1";
  apply_preset(c, default_preset(c.env, "es"));
  c.run = dir.file("run");
  c.steps = 1'000'000;
  c.until_return = 195;
  EXPECT_EQ(run(c).stop_reason, "until_return");
  EXPECT_EQ(load_policy(c.run)->spec().num_actions, 2);
}

}  // namespace
}  // namespace parl
