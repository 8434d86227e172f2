// GA3C over networks with a memory: who keeps it, what rollouts say of it, and that it is used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parl/agent/recurrent.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/ga3c.h"
#include "parl/train/actor_envs.h"
#include "parl/train/central_source.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/ratio_watch.h"
#include "parl/train/step_envs.h"
#include "parl/train/train_test_util.h"

namespace parl {
namespace {

using testing::final_weights;
using testing::run;
using testing::TempDir;

constexpr int kActors = 3;

std::function<bool()> never() {
  return [] { return false; };
}

// A source over three actors of two environments each that play Scripted-v0, in rollouts of `length`, and the network
// that acts in them: far from uniform, so that a wrong memory shows in the logits.
struct Remembering {
  Remembering(std::map<std::string, std::string> env_args, int64_t length, RolloutSource::Options options,
              CentralOptions central) {
    std::vector<ActorConfig> configs(kActors);
    for (int i = 0; i < kActors; ++i) {
      ActorConfig& c = configs[static_cast<size_t>(i)];
      c.env = "Scripted-v0", c.env_args = env_args, c.model = "mlp_lstm", c.algorithm = "ga3c";
      c.actor = i, c.envs = 2, c.first_env = 2 * i, c.length = length, c.seed = 3;
    }
    options.actors = kActors;
    const EnvSpec env = program().envs.make({.id = "Scripted-v0", .args = env_args})->spec();
    const ModelSpec spec = model_spec_of(env);
    torch::manual_seed(5);
    model = program().models.make("mlp_lstm", spec);
    const torch::NoGradGuard no_grad;
    for (const auto& item : model->named_parameters()) {
      if (item.key() == "policy.weight") item.value().mul_(300);
    }
    source = std::make_unique<CentralSource>(manager, options, central, configs, env, [&] {
      return program().algorithm("ga3c").make_actor(program().models.make("mlp_lstm", spec), Ga3cConfig{});
    });
    source->start();
    source->publish(0, model->get_weights());
  }

  // Walks through the rollout from the memory that it stores and gives the one after it; the logits must be those of
  // the policy that acted.
  at::Tensor walk(const Rollout& r) const {
    const torch::NoGradGuard no_grad;
    at::Tensor memory = to_tensor(r.state);
    for (int64_t t = 0; t < r.length(); ++t) {
      const StepOutput out = model->recurrent()->step(tensor_view(r.obs).select(1, t), memory);
      EXPECT_TRUE(at::allclose(out.output.logits, tensor_view(r.behaviour_logits).select(1, t), 1e-4, 1e-4))
          << "actor " << r.actor << " rollout " << r.sequence << " step " << t;
      const at::Tensor ended = tensor_view(r.terminated).select(1, t).logical_or(tensor_view(r.truncated).select(1, t));
      memory = out.state * ended.logical_not().unsqueeze(1);
    }
    return memory;
  }

  RemoteManager manager{"thread"};
  std::shared_ptr<Model> model;
  std::unique_ptr<CentralSource> source;
};

// Each request brings its rows' memory along: it does not matter who answers, nor beside whom.
TEST(CentralMemory, StaysWithItsEnvironments) {
  CentralOptions several;
  several.predictors = 3;
  several.max_batch = 4;  // two actors' rows of the six
  CentralOptions together;
  together.wait = std::chrono::milliseconds(20);
  for (const CentralOptions& central : {several, together}) {
    Remembering c({}, 7, {}, central);  // ends every five steps
    at::Tensor memory[kActors];
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < kActors; ++i) {
        const Rollout r = *c.source->next_from(i, never());
        ASSERT_EQ(r.state.shape(), (Shape{2, 128}));
        const at::Tensor state = tensor_view(r.state);
        EXPECT_EQ(state.abs().max().item<float>() > 0.01, round > 0);
        if (round > 0) {
          EXPECT_TRUE(at::allclose(state, memory[i], 1e-4, 1e-5)) << "actor " << i << " round " << round;
        }
        memory[i] = c.walk(r);
      }
    }
    c.source->stop();
  }
}

// Two rollouts of four steps; the fifth step of one actor breaks: what takes its place remembers nothing.
TEST(CentralMemory, ASimulatorThatTakesAnothersPlaceBeginsWithout) {
  TempDir dir;
  Remembering c({{"fault", "throw"}, {"at", "6"}, {"marker", dir.file("marker")}, {"limit", "100"}}, 4, {}, {});
  int fresh = 0;
  for (int64_t round = 0; round < 3; ++round) {
    for (int i = 0; i < kActors; ++i) {
      const Rollout r = *c.source->next_from(i, never());
      ASSERT_EQ(r.sequence, round);
      c.walk(r);
      const bool zero = tensor_view(r.state).abs().max().item<float>() == 0;
      EXPECT_TRUE(round > 0 || zero);
      if (round > 0 && zero) {
        ++fresh;
        EXPECT_EQ(tensor_view(r.obs)[0][0][1].item<float>(), 0);  // step 0 of an episode
      }
    }
  }
  EXPECT_EQ(fresh, 1);
  EXPECT_EQ(c.source->replaced(), 1);
}

TrainConfig lstm_config(const std::string& run_dir) {
  TrainConfig c = program().config_of("ga3c");
  c.env = "CartPole-v1";
  apply_preset(c, "classic");
  c.model = "mlp_lstm";
  c.run = run_dir;
  c.steps = 1'300;
  c.log_steps = 256;
  c.checkpoint_steps = 640;
  return c;
}

// With rollouts of 8 steps most checkpoints lie in the middle of episodes.
TEST(CentralMemory, DeterministicRunsAreEqualInEveryEngineAndContinueToTheBit) {
  TempDir dir;
  TrainConfig whole = lstm_config(dir.file("whole"));
  whole.deterministic = true;
  run(whole);
  TrainConfig processes = lstm_config(dir.file("processes"));
  processes.deterministic = true;
  processes.engine = "process";
  processes.settings.as<Ga3cConfig>().predictors = 2;
  run(processes);
  EXPECT_EQ(final_weights(whole.run), final_weights(processes.run));
  TrainConfig parts = lstm_config(dir.file("parts"));
  parts.deterministic = true;
  parts.steps = 700;
  run(parts);
  const auto saved = load_latest_checkpoint(parts.run);
  ASSERT_TRUE(saved);
  ASSERT_EQ(saved->actors.size(), 4u);
  for (const ActorState& actor : saved->actors) EXPECT_GT(tensor_view(actor.memory).abs().max().item<float>(), 0.01);
  parts.steps = whole.steps;
  run(parts);
  EXPECT_EQ(final_weights(whole.run), final_weights(parts.run));
  parts.model = "mlp";
  parts.run = dir.file("parts");
  EXPECT_THROW(run(parts), Error);
}

// The learner's own pass at lag 0 gives the behaviour policy back, over whole rollouts with ends of both kinds.
TEST(CentralMemory, RatioIsOneAtLagZero) {
  TempDir dir;
  TrainConfig c = lstm_config(dir.file("run"));
  c.engine = "process";
  c.env_args = {{"max_episode_steps", "13"}};  // truncations, in the middle of rollouts
  c.max_lag = 0;
  c.rollout_length = 16;
  c.steps = 2'000;
  Ga3cConfig& ga3c = c.settings.as<Ga3cConfig>();
  ga3c.lr = 0.02;  // a policy that soon is not uniform
  ga3c.predictors = 2;
  testing::RatioWatch watch;
  TrainHooks hooks;
  hooks.on_update = [&](const UpdateInfo& u) { watch.see(u); };
  run(c, hooks);
  watch.expect_a_trial();
  EXPECT_GT(watch.memory(), 0.1);
}

// --------------------------------------------------------------------------------------------------------- the gate

TrainConfig recall(const std::string& run_dir, const std::string& model) {
  TrainConfig c = program().config_of("ga3c");
  c.env = "Recall-v0";
  c.model = model;
  c.run = run_dir;
  c.deterministic = true;
  c.actors = 2, c.envs_per_actor = 8, c.rollout_length = 16;
  c.steps = 100'000;
  c.until_return = 0.95;
  Ga3cConfig& config = c.settings.as<Ga3cConfig>();
  config.optimizer = OptimizerKind::kAdam;
  config.lr = 3e-3, config.eps = 1e-5;
  return c;
}

// Mean return of `episodes` greedy ones, with the memory that act() gave back, or with zeros instead.
double recalled(Algorithm& algorithm, const std::string& env_name, bool remembers, uint64_t episodes) {
  const auto env = program().envs.make({.id = env_name});
  const at::Tensor obs = torch::zeros({1, 2});
  const auto place = std::as_writable_bytes(std::span(obs.mutable_data_ptr<float>(), 2));
  double sum = 0;
  for (uint64_t episode = 0; episode < episodes; ++episode) {
    env->reset(episode, place);
    at::Tensor memory = make_memory(algorithm.model(), 1);
    StepResult result;
    while (!result.done()) {
      const ActOutput out = algorithm.act({obs, {}, memory});
      if (remembers) memory = out.state;
      result = env->step(Action::discrete(out.action.item<int64_t>()), place);
    }
    sum += result.reward;
  }
  return sum / static_cast<double>(episodes);
}

TEST(CentralMemory, RecallIsLearntAndOnlyWithIt) {
  TempDir dir;
  const TrainConfig with = recall(dir.file("lstm"), "mlp_lstm");
  ASSERT_EQ(run(with).stop_reason, "until_return");
  const LoadedRun loaded = load_run(with.run);
  EXPECT_EQ(recalled(*loaded.algorithm, with.env, true, 40), 1);
  EXPECT_LT(recalled(*loaded.algorithm, with.env, false, 40), 0.5);

  TrainConfig without = recall(dir.file("mlp"), "mlp");
  without.steps = 15'000;
  EXPECT_LT(run(without).return_mean_100.value(), 0.5);
}

}  // namespace
}  // namespace parl
