// From an agent to a file of its episodes, and from the file to an agent again.
#include "parl/train/record.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>

#include "parl/agent/obs_parts.h"
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

// CartPole's actions by a rule that keeps the pole up for hundreds of steps. Drawn ones are by chance in eight of
// ten steps: the pole falls, and there is something to learn from.
class Balancer final : public Algorithm {
 public:
  ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) override {
    ActOutput out = predict(obs);
    out.action = at::where(uniforms < 0.8, (uniforms < 0.4).to(at::kLong), out.action);
    return out;
  }
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

// Aim-v0's actions, without parts: where it should be, or drawn twice as wide as there are bounds.
class Aimer final : public Algorithm {
 public:
  ActOutput sample(const at::Tensor& /*obs*/, const at::Tensor& uniforms) override {
    return {uniforms * 4 - 2, {}, {}};
  }
  ActOutput predict(const at::Tensor& obs) override {
    return {obs.narrow(1, 0, 1) * (1 - 2 * obs.narrow(1, 1, 1)), {}, {}};
  }
  LearnStats learn(const Batch& /*batch*/, int64_t /*agent_steps*/) override { return {}; }
  Model& model() override { return model_; }
  Weights get_state() const override { return {}; }
  void set_state(const Weights& /*state*/) override {}

 private:
  Mlp model_{{{2}, DType::kF32, 0, 1, {-2}, {2}}};
};

std::string record_aimer(const testing::TempDir& dir, const std::string& policy) {
  Aimer aimer;
  RecordOptions options;
  options.env = "Aim-v0";
  options.env_args = {{"parts", "false"}};
  options.episodes = 300;
  options.policy = policy;
  const std::string file = dir.file(policy + ".safetensors");
  save_recording(file, record(&aimer, options));
  return file;
}

double evaluated(const std::string& run) {
  const LoadedRun loaded = load_run(run, false);
  EvalOptions options;
  options.env = loaded.config.env;
  options.env_args = loaded.config.env_args;
  options.episodes = 30;
  return evaluate(*loaded.algorithm, options).return_mean;
}

std::string record_balancer(const testing::TempDir& dir, int64_t episodes, const std::string& policy = "greedy") {
  Balancer balancer;
  RecordOptions options;
  options.env = "CartPole-v1";
  options.episodes = episodes;
  options.policy = policy;
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
  c.data = record_balancer(dir, 100, "sample");
  c.run = dir.file("run");
  c.deterministic = true;
  c.steps = 20'000;
  const TrainSummary summary = run_quietly(c);
  EXPECT_GT(summary.updates, 0);
  EXPECT_EQ(summary.episodes, 0);
  EXPECT_GT(evaluated(c.run), 40);  // chance: 22; always the same action: 9
}

TrainConfig aim_config(const std::string& algorithm, const std::string& data, const std::string& run) {
  TrainConfig c = program().config_of(algorithm);
  c.env = "Aim-v0";
  c.env_args = {{"parts", "false"}};
  c.data = data;
  c.run = run;
  c.deterministic = true;
  c.eval_steps = 0;
  return c;
}

// Half of these draws lie beyond the bounds: the environment was given the bound, and a critic must learn that one.
TEST(OfflineLearning, TeachesContinuousActionsFromAGaussianPolicysDraws) {
  testing::TempDir dir;
  for (const char* algorithm : {"td3", "sac"}) {
    TrainConfig c = aim_config(algorithm, record_aimer(dir, "sample"), dir.file(algorithm));
    c.actors = 2;
    c.model = "mlp64";
    c.steps = 2'000;
    for (const auto& [name, value] : {std::pair{"lr", "2e-3"},
                                      {"gamma", "0"},
                                      {"batch-size", "64"},
                                      {"train-ratio", "24"},
                                      {"learn-start", "200"},
                                      {"replay-capacity", "4000"}}) {
      config_set(config_fields(c), name, value);
    }
    double largest = 0;
    int64_t at_bounds = 0, steps = 0;
    TrainHooks hooks;
    hooks.show_status = false;
    hooks.on_update = [&](const UpdateInfo& u) {
      largest = std::max(largest, u.batch->action.abs().max().item<double>());
      at_bounds += u.batch->action.abs().eq(1).sum().item<int64_t>();
      steps += u.batch->steps();
    };
    EXPECT_EQ(train(c, hooks).episodes, 0);
    EXPECT_EQ(largest, 1);
    EXPECT_NEAR(static_cast<double>(at_bounds), 0.5 * static_cast<double>(steps), 0.05 * static_cast<double>(steps));
    EXPECT_GT(evaluated(c.run), 3.4) << algorithm;
    const std::string log = read_file(c.run + "/log.txt"), said = "recorded actions lie outside -1..1";
    EXPECT_NE(log.find(said), std::string::npos);
    EXPECT_EQ(log.find(said), log.rfind(said));
  }
}

// A tanh policy's actions have the same units: what it did in -1..1 is what a Gaussian policy's means should be.
TEST(BehaviourCloning, LearnsContinuousActions) {
  testing::TempDir dir;
  TrainConfig c = aim_config("bc", record_aimer(dir, "greedy"), dir.file("run"));
  c.steps = 200'000;
  run_quietly(c);
  EXPECT_GT(evaluated(c.run), 3.4);
}

TEST(Record, ChanceTakesLegalActionsAlone) {
  for (const char* actions : {"one", "several"}) {
    RecordOptions options;
    options.env = "Match-v0";
    options.env_args = {{"actions", actions}, {"mask", "true"}};
    options.episodes = 200;
    const RecordedEpisodes r = record(nullptr, options);
    const ModelSpec spec = model_spec_of(program().envs.make({.id = options.env, .args = options.env_args})->spec());
    r.check_fits(spec, options.env, "chance");  // throws for forbidden ones
    const int64_t offset = find_part(spec, "goal").offset, bytes = spec.obs_shape[0];
    const int64_t numbers = r.action.ndim() == 2 ? r.action.dim(1) : 1;
    int64_t right = 0;
    for (int64_t s = 0; s < r.steps(); ++s) {
      int64_t goal = 0;
      std::memcpy(&goal, r.obs.data() + s * bytes + offset, sizeof(goal));
      right += r.action.data<int64_t>()[s * numbers] == goal;
    }
    EXPECT_EQ(r.steps(), 800);
    EXPECT_NEAR(static_cast<double>(right), 400, 60) << actions;  // one of two legal ones, each as likely
  }
}

TEST(BehaviourCloning, RefusesWhatAMaskForbids) {
  testing::TempDir dir;
  RecordOptions options;
  options.env = "Match-v0";
  options.env_args = {{"mask", "true"}};
  RecordedEpisodes r = record(nullptr, options);
  TrainConfig c = bc_config(dir.file("data"), dir.file("run"));
  c.env = options.env;
  c.env_args = options.env_args;
  c.steps = 1'000;
  save_recording(c.data, r);
  run_quietly(c);
  const ModelSpec spec = model_spec_of(program().envs.make({.id = options.env, .args = options.env_args})->spec());
  const std::byte* mask = r.obs.data() + 7 * spec.obs_shape[0] + spec.action_mask()->offset;
  const int64_t forbidden = std::find(mask, mask + 3, std::byte{0}) - mask;
  r.action.data<int64_t>()[7] = forbidden;
  save_recording(c.data, r);
  c.run = dir.file("other");
  EXPECT_NE(error_of([&] { run_quietly(c); }).find("forbids action " + std::to_string(forbidden) + " at step 7"),
            std::string::npos);
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
