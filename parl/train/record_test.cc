// From an agent to a file of its episodes, and from the file to an agent again.
#include "parl/train/record.h"

#include <gtest/gtest.h>

#include "parl/core/error_of.h"
#include "parl/core/files.h"
#include "parl/models/mlp.h"
#include "parl/train/checkpoint.h"
#include "parl/train/evaluate.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/train_test_util.h"
#include "parl/train/trainer.h"

namespace parl {
namespace {

TrainSummary run_quietly(const TrainConfig& config) {
  TrainHooks hooks;
  hooks.show_status = false;
  return train(config, hooks);
}

// CartPole's actions by a rule that keeps the pole up for hundreds of steps.
class Balancer final : public Algorithm {
 public:
  ActOutput sample(const at::Tensor& obs, const at::Tensor& /*uniforms*/) override { return predict(obs); }
  ActOutput predict(const at::Tensor& obs) override {
    ActOutput out;
    const at::Tensor lean =
        obs.select(1, 2) + 0.3 * obs.select(1, 3) + 0.05 * obs.select(1, 0) + 0.1 * obs.select(1, 1);
    out.action = lean.gt(0).to(at::kLong);
    return out;
  }
  LearnStats learn(const Batch& /*batch*/, int64_t /*agent_steps*/) override { return {}; }
  Model& model() override { return model_; }
  Weights get_state() const override { return {}; }
  void set_state(const Weights& /*state*/) override {}

 private:
  Mlp model_{{{4}, DType::kF32, 2, 0}};  // without a memory; no more is asked of it
};

std::string record_balancer(const testing::TempDir& dir, int64_t episodes) {
  Balancer balancer;
  RecordOptions options;
  options.env = "CartPole-v1";
  options.episodes = episodes;
  const RecordedEpisodes recording = record(&balancer, options);
  save_recording(dir.file("episodes.safetensors"), recording);
  return dir.file("episodes.safetensors");
}

TrainConfig bc_config(const std::string& data, const std::string& run) {
  TrainConfig c = program().config_of("bc");
  c.env = "CartPole-v1";
  c.data = data;
  c.run = run;
  c.deterministic = true;
  c.steps = 60'000;
  return c;
}

TEST(Record, KeepsWholeEpisodes) {
  RecordOptions options;
  options.env = "CartPole-v1";
  options.episodes = 21;
  options.envs = 4;
  const RecordedEpisodes a = record(nullptr, options), b = record(nullptr, options);
  a.check("a");
  EXPECT_EQ(a.episodes(), 21);
  EXPECT_EQ(a.num_actions, 2);
  EXPECT_TRUE(a.obs == b.obs && a.action == b.action);
  for (int64_t i = 0; i < a.episodes(); ++i) EXPECT_TRUE(a.terminated.data<bool>()[i]);
  options.seed = 1;
  EXPECT_FALSE(record(nullptr, options).obs == a.obs);
}

TEST(Record, TruncatedEpisodesKeepTheirLastObservation) {
  RecordOptions options;
  options.env = "Pendulum-v1";
  options.episodes = 2;
  const RecordedEpisodes r = record(nullptr, options);
  EXPECT_EQ(r.steps(), 400);
  EXPECT_EQ(r.action.shape(), (Shape{400, 1}));
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(r.terminated.data<bool>()[i]);
    const float* last = r.final_obs.data<float>() + 3 * i;
    EXPECT_NEAR(last[0] * last[0] + last[1] * last[1], 1, 1e-5);  // cosine and sine of an angle
  }
}

TEST(BehaviourCloning, PlaysAsWasRecorded) {
  testing::TempDir dir;
  const TrainConfig c = bc_config(record_balancer(dir, 20), dir.file("run"));
  const TrainSummary summary = run_quietly(c);
  EXPECT_EQ(summary.stop_reason, "steps");
  EXPECT_EQ(summary.episodes, 0);  // nothing was played
  const LoadedRun run = load_run(c.run);
  EvalOptions options;
  options.env = c.env;
  EXPECT_GT(evaluate(*run.algorithm, options).return_mean, 300);  // chance: 22
}

TEST(BehaviourCloning, ContinuesToTheBit) {
  testing::TempDir dir;
  const std::string data = record_balancer(dir, 3);
  TrainConfig whole = bc_config(data, dir.file("whole")), parts = bc_config(data, dir.file("parts"));
  whole.eval_steps = parts.eval_steps = 0;
  whole.checkpoint_steps = parts.checkpoint_steps = 2'048;
  whole.steps = 8'192;
  parts.steps = 4'096;
  run_quietly(whole);
  run_quietly(parts);
  parts.steps = 8'192;
  run_quietly(parts);
  EXPECT_TRUE(read_file(*latest_checkpoint(whole.run) + "/weights.safetensors") ==
              read_file(*latest_checkpoint(parts.run) + "/weights.safetensors"));
}

TEST(OfflineLearning, TeachDqnWithoutAnEnvironment) {
  testing::TempDir dir;
  TrainConfig c = program().config_of("dqn");
  c.env = "CartPole-v1";
  apply_preset(c, default_preset(c.env, c.algorithm));
  c.data = record_balancer(dir, 10);
  c.run = dir.file("run");
  c.deterministic = true;
  c.steps = 4'000;
  const TrainSummary summary = run_quietly(c);
  EXPECT_GT(summary.updates, 0);
  EXPECT_EQ(summary.episodes, 0);
}

TEST(OfflineLearning, WhatDoesNotFitIsRefused) {
  testing::TempDir dir;
  const std::string data = record_balancer(dir, 1);
  TrainConfig c = bc_config(data, dir.file("run"));
  c.data.clear();
  EXPECT_NE(error_of([&] { run_quietly(c); }).find("--data FILE"), std::string::npos);
  c.data = dir.file("nothing");
  EXPECT_NE(error_of([&] { run_quietly(c); }).find("nothing"), std::string::npos);
  c.data = data;
  c.env = "Acrobot-v1";
  EXPECT_NE(error_of([&] { run_quietly(c); }).find("recorded in 'CartPole-v1'"), std::string::npos);
  c = bc_config(data, dir.file("run"));
  c.until_return = 100;
  EXPECT_NE(error_of([&] { run_quietly(c); }).find("--eval-steps"), std::string::npos);
  c = program().config_of("ppo");
  c.env = "CartPole-v1";
  c.run = dir.file("run");
  c.data = data;
  EXPECT_NE(error_of([&] { run_quietly(c); }).find("own policy's experience"), std::string::npos);
}

}  // namespace
}  // namespace parl
