// Networks with a memory through the whole loop: actors, learner, checkpoints, evaluation, the saved policy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parl/agent/recurrent.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/a2c.h"
#include "parl/algorithms/ppo.h"
#include "parl/core/error_of.h"
#include "parl/models/policy.h"
#include "parl/train/evaluate.h"
#include "parl/train/program.h"
#include "parl/train/ratio_watch.h"
#include "parl/train/train_test_util.h"
#include "parl/train/trainer.h"

namespace parl {
namespace {

using ::testing::HasSubstr;
using testing::small_config;
using testing::TempDir;

TrainSummary run(const TrainConfig& config, TrainHooks hooks = {}) {
  hooks.show_status = false;
  return train(config, hooks);
}

TrainConfig lstm_config(const std::string& run_dir) {
  TrainConfig c = small_config(run_dir);
  c.model = "mlp_lstm";
  c.deterministic = true;
  return c;
}

// ------------------------------------------------------------------------------------------------------- the rollout

ActorConfig actor(const std::string& env, int64_t envs, int64_t length) {
  ActorConfig c;
  c.env = env;
  c.model = "mlp_lstm";
  c.algorithm = "impala";
  c.envs = envs;
  c.length = length;
  c.seed = 3;
  return c;
}

std::shared_ptr<Model> decided_model(const ActorConfig& c) {
  torch::manual_seed(5);
  const auto env = program().envs.make({.id = c.env, .args = c.env_args});
  auto model = program().models.make(c.model, model_spec_of(env->spec()));
  const torch::NoGradGuard no_grad;  // far from uniform
  for (const auto& item : model->named_parameters()) {
    if (item.key() == "policy.weight") item.value().mul_(300);
  }
  return model;
}

// The memory stored is the one before obs[0]: walked through from there, with zeros after each end, the network gives
// back what the actor saw, rollout after rollout.
TEST(RecurrentActor, StoresTheMemoryBeforeItsFirstObservation) {
  const ActorConfig c = actor("Scripted-v0", 2, 7);  // ends every five steps
  const auto model = decided_model(c);
  RecurrentModel& lstm = *model->recurrent();
  const Versioned<Weights> weights(0, model->get_weights());
  Actor collector(c);
  const torch::NoGradGuard no_grad;
  at::Tensor memory = lstm.initial_state(2);
  for (int rollout = 0; rollout < 4; ++rollout) {
    const Rollout r = collector.sample(weights);
    EXPECT_TRUE(at::allclose(tensor_view(r.state), memory, 1e-6, 1e-7)) << rollout;
    for (int64_t t = 0; t < 7; ++t) {
      const StepOutput out = lstm.step(tensor_view(r.obs).select(1, t), memory);
      EXPECT_TRUE(at::allclose(out.output.logits, tensor_view(r.behaviour_logits).select(1, t), 1e-5, 1e-5));
      const at::Tensor ended = tensor_view(r.terminated).select(1, t).logical_or(tensor_view(r.truncated).select(1, t));
      memory = out.state * ended.logical_not().unsqueeze(1);
    }
  }
}

TEST(RecurrentActor, SavedStateContinuesToTheBit) {
  const ActorConfig c = actor("CartPole-v1", 3, 5);
  const Versioned<Weights> weights(0, decided_model(c)->get_weights());
  Actor whole(c), continued(c);
  whole.sample(weights);
  continued.load_state(whole.save_state());
  const Rollout a = whole.sample(weights), b = continued.sample(weights);
  EXPECT_GT(tensor_view(a.state).abs().max().item<double>(), 0.01);
  EXPECT_TRUE(a.state == b.state);
  EXPECT_TRUE(a.behaviour_logits == b.behaviour_logits);
}

// The learner's own pass at lag 0 gives the behaviour policy back, in every engine, over whole rollouts with ends.
class RatioIsOne : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(RatioIsOne, AtLagZero) {
  TempDir dir;
  TrainConfig c = lstm_config(dir.file("run"));
  c.engine = std::get<0>(GetParam());
  c.model = std::get<1>(GetParam());
  c.env_args = {{"max_episode_steps", "13"}};  // truncations, in the middle of rollouts
  c.max_lag = 0;
  c.steps = 1'000;
  ImpalaConfig& impala = c.settings.as<ImpalaConfig>();
  impala.epochs = impala.minibatches = 1, impala.clip = 0, impala.lr = 0.02;  // a policy that soon is not uniform
  impala.learner_threads = 2;
  testing::RatioWatch watch;
  TrainHooks hooks;
  hooks.on_update = [&](const UpdateInfo& u) { watch.see(u); };
  run(c, hooks);
  watch.expect_a_trial();
  EXPECT_EQ(watch.memory() > 0.1, c.model == "mlp_lstm");
}

INSTANTIATE_TEST_SUITE_P(Engines, RatioIsOne,
                         ::testing::Combine(::testing::Values("inline", "thread", "process"),
                                            ::testing::Values("mlp", "mlp_lstm")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                         });

// ---------------------------------------------------------------------------------------------------------- the gate

TrainConfig recall(const std::string& run_dir, const std::string& algorithm, const std::string& model) {
  TrainConfig c = program().config_of(algorithm);
  c.env = "Recall-v0";
  c.model = model;
  c.run = run_dir;
  c.deterministic = true;
  c.actors = 2, c.envs_per_actor = 8, c.rollout_length = 16;
  c.steps = 100'000;
  c.until_return = 0.95;
  const auto tune = [](ActorCriticConfig& config) {
    config.loss_reduction = Reduction::kMean;
    config.optimizer = OptimizerKind::kAdam;
    config.lr = 3e-3, config.eps = 1e-5, config.max_grad_norm = 0.5, config.minibatch_of = MinibatchOf::kUnrolls;
  };
  if (algorithm == "impala") tune(c.settings.as<ImpalaConfig>());
  if (algorithm == "a2c") tune(c.settings.as<A2cConfig>());
  if (algorithm == "ppo") tune(c.settings.as<PpoConfig>());
  return c;
}

class Recall : public ::testing::TestWithParam<std::string> {};

TEST_P(Recall, IsLearntWithAMemory) {
  TempDir dir;
  const TrainConfig c = recall(dir.file("run"), GetParam(), "mlp_lstm");
  EXPECT_EQ(run(c).stop_reason, "until_return");
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Recall, ::testing::Values("impala", "a2c", "ppo"),
                         [](const auto& info) { return info.param; });

TEST(RecallGate, IsNotLearntWithoutAndTheSavedPolicyRemembers) {
  TempDir dir;
  TrainConfig without = recall(dir.file("mlp"), "impala", "mlp");
  without.steps = 30'000;
  const TrainSummary summary = run(without);
  EXPECT_LT(summary.return_mean_100.value(), 0.5);

  const TrainConfig with = recall(dir.file("lstm"), "impala", "mlp_lstm");
  ASSERT_EQ(run(with).stop_reason, "until_return");
  const LoadedRun loaded = load_run(with.run);
  EvalOptions options;
  options.env = with.env;
  options.episodes = 40;
  EXPECT_NEAR(evaluate(*loaded.algorithm, options).return_mean, 1, 1e-9);

  const auto policy = load_policy(with.run);
  const auto env = program().envs.make({.id = with.env});
  std::vector<float> obs(2);
  const auto place = std::as_writable_bytes(std::span(obs));
  for (uint64_t episode = 0; episode < 20; ++episode) {
    env->reset(episode, place);
    policy->reset();
    StepResult result;
    while (!result.done()) result = env->step(Action::discrete(policy->act(place)), place);
    EXPECT_EQ(result.reward, 1) << episode;
  }
}

// -------------------------------------------------------------------------------------------------------- the errors

TEST(Recurrent, WhatDoesNotFitIsSaidAtTheStart) {
  TempDir dir;
  TrainConfig c = program().config_of("dqn");
  c.env = "CartPole-v1", c.model = "mlp_lstm", c.run = dir.file("dqn");
  EXPECT_THAT(error_of([&] { run(c); }), ::testing::AllOf(HasSubstr("mlp_lstm"), HasSubstr("impala")));
  c = program().config_of("ppo");
  c.env = "CartPole-v1", c.model = "mlp_lstm", c.run = dir.file("ppo");
  c.settings.as<PpoConfig>().minibatch_of = MinibatchOf::kSteps;
  EXPECT_THAT(error_of([&] { run(c); }), HasSubstr("--minibatch-of unrolls"));
  c.settings.as<PpoConfig>().minibatch_of = MinibatchOf::kAuto;
  c.settings.as<PpoConfig>().minibatches = 33;  // of 2 x 16 unrolls
  EXPECT_THAT(error_of([&] { run(c); }), HasSubstr("--minibatches 33 are more than the 32 unrolls"));
  EXPECT_FALSE(std::filesystem::exists(c.run));
}

// What minibatches are of follows from the network where nobody says it; the run's files say what came out.
TEST(Recurrent, WhatMinibatchesAreOfIsChosenAndStored) {
  TempDir dir;
  for (const auto& [name, model, of] :
       {std::tuple{"ppo", "mlp_lstm", "unrolls"}, {"appo", "mlp_lstm", "unrolls"}, {"ppo", "mlp", "steps"}}) {
    SCOPED_TRACE(fmt::format("{} {}", name, model));
    TrainConfig c = program().config_of(name);
    c.env = "CartPole-v1", c.model = model, c.run = dir.file(std::string(name) + model);
    c.envs_per_actor = 4, c.rollout_length = 16, c.steps = 256;
    EXPECT_EQ(config_text(config_find(config_fields(c), "minibatch-of")->get()), "auto");
    run(c);
    for (const std::string& file : {c.run + "/config.json", *latest_checkpoint(c.run) + "/config.json"}) {
      TrainConfig stored = train_config_of(read_file(file), file);
      EXPECT_EQ(config_text(config_find(config_fields(stored), "minibatch-of")->get()), of);
    }
    EXPECT_THAT(read_file(c.run + "/log.txt"), HasSubstr(fmt::format("auto stands for --minibatch-of {}", of)));
    c.steps = 512;  // the same command goes on
    EXPECT_EQ(run(c).steps, 512);
    EXPECT_GT(load_run(c.run).steps, 256);
  }
}

}  // namespace
}  // namespace parl
