// Runs of algorithms with a replay buffer: killed and continued, their checkpoints, their memory, and how far actors go
// ahead of the learner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "parl/algorithms/dqn.h"
#include "parl/core/error_of.h"
#include "parl/models/policy.h"
#include "parl/remote/remote.h"
#include "parl/train/actor_pool.h"
#include "parl/train/program.h"
#include "parl/train/replay_store.h"
#include "parl/train/train_test_util.h"

namespace parl {
namespace {

namespace fs = std::filesystem;
using testing::curve;
using testing::final_weights;
using ::testing::HasSubstr;
using testing::run;
using testing::SmallDisk;
using testing::TempDir;

// All of Rainbow on CartPole, small: 32 batches of 64 steps.
TrainConfig rainbow_config(const std::string& run_dir) {
  TrainConfig c = program().config_of("dqn");
  const TrainConfig small = testing::small_config(run_dir);
  c.env = small.env, c.model = small.model, c.run = run_dir, c.steps = small.steps, c.actors = small.actors;
  c.envs_per_actor = small.envs_per_actor, c.rollout_length = small.rollout_length;
  c.checkpoint_steps = small.checkpoint_steps;
  c.log_steps = 192;  // checkpoints are not at rows
  c.deterministic = true;
  DqnConfig& dqn = c.settings.as<DqnConfig>();
  dqn.double_q = dqn.dueling = dqn.prioritized = dqn.distributional = dqn.noisy = true;
  dqn.n_step = 3, dqn.atoms = 11, dqn.v_min = 0, dqn.v_max = 100, dqn.exploration = "0:0.5,2000:0";
  dqn.lr = 1e-3, dqn.batch_size = 16, dqn.train_ratio = 2, dqn.target_updates = 20, dqn.learn_start = 200;
  dqn.replay_capacity = 1'000;  // begins to forget in time
  return c;
}

TEST(ReplayVictim, DISABLED_KillsItself) {
  TrainHooks hooks;
  hooks.on_update = [](const UpdateInfo& u) {
    if (u.updates == 23) kill(getpid(), SIGKILL);
  };
  run(rainbow_config(std::getenv("PARL_TEST_RUN")), hooks);
}

TEST(ReplayRun, KilledAndContinuedItGivesTheSameCurve) {
  TempDir dir;
  const TrainConfig whole = rainbow_config(dir.file("whole")), killed = rainbow_config(dir.file("killed"));
  run(whole);
  const std::string command =
      fmt::format("PARL_TEST_RUN={} {} --gtest_also_run_disabled_tests --gtest_filter=ReplayVictim.* >/dev/null 2>&1",
                  killed.run, fs::read_symlink("/proc/self/exe").string());
  EXPECT_NE(std::system(command.c_str()), 0);
  ASSERT_TRUE(latest_checkpoint(killed.run));
  const Progress at = load_checkpoint(*latest_checkpoint(killed.run)).progress;
  EXPECT_EQ(at.updates, 20);  // 1,280 steps: the buffer of 1,000 is full, and 600 updates are made
  run(killed);
  EXPECT_EQ(curve(killed.run), curve(whole.run));
  EXPECT_EQ(final_weights(killed.run), final_weights(whole.run));
}

TEST(ReplayRun, OnlyTheNewestCheckpointHasTheBuffer) {
  TempDir dir;
  TrainConfig c = rainbow_config(dir.file("run"));
  std::vector<std::string> checkpoints;
  TrainHooks hooks;
  hooks.on_checkpoint = [&](const std::string& path, int64_t) {
    for (const std::string& older : checkpoints) EXPECT_FALSE(fs::exists(older + "/" + kReplayFile));
    EXPECT_TRUE(fs::exists(path + "/" + kReplayFile));
    checkpoints.push_back(path);
  };
  c.eval_steps = 640, c.eval_episodes = 2;
  run(c, hooks);
  ASSERT_GE(checkpoints.size(), 4u);
  EXPECT_FALSE(fs::exists(c.run + "/checkpoints/best/" + kReplayFile));

  // Continued from an older one: learning waits until the buffer is filled again, and goes on then.
  fs::remove_all(checkpoints.back());
  c.steps = 2'600;
  std::vector<double> updates;
  hooks = {};
  hooks.on_update = [&](const UpdateInfo& u) {
    for (const auto& [name, value] : *u.stats) {
      if (name == "updates") updates.push_back(value);
    }
  };
  run(c, hooks);
  ASSERT_GE(updates.size(), 6u);
  EXPECT_THAT(std::vector<double>(updates.begin(), updates.begin() + 3), ::testing::Each(0));  // 192 steps
  EXPECT_EQ(updates[3], 8);                                                                    // 256 > learn_start
}

// One flipped bit anywhere: the buffer is set aside, and the run goes on as without one.
TEST(ReplayRun, ADamagedBufferIsSetAside) {
  TempDir dir;
  TrainConfig c = rainbow_config(dir.file("run"));
  c.steps = 1'000;
  run(c);
  const std::string file = *latest_checkpoint(c.run) + "/" + kReplayFile;
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  write_file_atomically(file, bytes);
  c.steps = 1'300;
  std::vector<double> updates;
  TrainHooks hooks;
  hooks.on_update = [&](const UpdateInfo& u) {
    for (const auto& [name, value] : *u.stats) {
      if (name == "updates") updates.push_back(value);
    }
  };
  EXPECT_EQ(run(c, hooks).stop_reason, "steps");
  EXPECT_EQ(updates.at(0), 0);  // nothing to learn from yet
  EXPECT_TRUE(fs::exists(file + ".damaged") || !fs::exists(file));
}

// What a stop left owed is made up first, from what there was then: nobody can tell afterwards.
TEST(ReplayRun, AnInterruptedUpdateIsMadeUpToTheBit) {
  for (const std::string name : {"dqn", "td3"}) {
    TrainConfig c = program().config_of(name);
    c.env = name == "dqn" ? "CartPole-v1" : "Pendulum-v1";
    c.model = name == "dqn" ? "mlp" : "mlp64";
    c.run = "nowhere";
    for (const auto& [key, value] : {std::pair{"learn-start", "64"}, {"batch-size", "8"}, {"train-ratio", "16"}}) {
      config_set(config_fields(c), key, value);
    }
    const auto env = program().envs.make({.id = c.env});
    const auto make = [&] {
      torch::manual_seed(3);
      return make_learner(c, env->spec());
    };
    const auto batch = [&](uint64_t seed) {
      torch::manual_seed(seed);
      Batch b;
      b.obs = torch::randn({8, 17, env->spec().observation.size()});
      b.action = name == "dqn" ? torch::randint(2, {8, 16}, at::kLong) : torch::rand({8, 16, 1}) * 2 - 1;
      b.behaviour_logits = torch::zeros({8, 16, 2});
      b.reward = torch::rand({8, 16});
      b.terminated = torch::rand({8, 16}) < 0.1;
      b.truncated = torch::zeros({8, 16}, at::kBool);
      b.final_index = torch::zeros({0}, at::kLong), b.version = torch::zeros({8}, at::kLong);
      return b;
    };
    const auto count = [](const LearnStats& stats) {
      for (const auto& [key, value] : stats) {
        if (key == "updates") return value;
      }
      return -1.0;
    };
    const auto whole = make(), stopped = make();
    EXPECT_EQ(count(whole->learn(batch(1), 1'000)), 256);
    int asked = 0;
    stopped->interrupt_when([&] { return ++asked > 2; });
    const double made = count(stopped->learn(batch(1), 1'000));
    EXPECT_GT(made, 0) << name;
    EXPECT_LT(made, 256) << name;

    const auto continued = make();  // from a checkpoint
    continued->set_weights(stopped->get_weights());
    continued->set_state(stopped->get_state());
    Weights steps;
    dynamic_cast<ReplayOwner&>(*stopped).replay().append_state(steps);
    dynamic_cast<ReplayOwner&>(*continued).replay().set_state(steps);
    EXPECT_EQ(count(continued->learn(batch(2), 1'128)), 512 - made) << name;
    whole->learn(batch(2), 1'128);
    const Weights a = whole->get_weights(), b = continued->get_weights();
    for (size_t i = 0; i < a.entries.size(); ++i) {
      EXPECT_TRUE(a.entries[i].array == b.entries[i].array) << name << " " << a.entries[i].name;
    }
  }
}

TEST(ReplayRun, NoneIsSavedWhereNoneIsWanted) {
  TempDir dir;
  TrainConfig c = rainbow_config(dir.file("run"));
  c.save_replay = false;
  c.steps = 1'000;
  run(c);
  EXPECT_FALSE(fs::exists(*latest_checkpoint(c.run) + "/" + kReplayFile));
  c.steps = 2'000;
  EXPECT_EQ(run(c).steps, 2048);
}

// state.bin as earlier versions wrote it, with the buffer among the algorithm's state.
TEST(ReplayRun, CheckpointsOfEarlierVersionsGoOn) {
  TempDir dir;
  const TrainConfig whole = rainbow_config(dir.file("whole"));
  run(whole);
  TrainConfig c = rainbow_config(dir.file("run"));
  c.steps = 1'280;
  run(c);
  const std::string path = *latest_checkpoint(c.run);
  Checkpoint old = load_checkpoint(path);
  ReplayBuffer buffer({.capacity = 1'000, .prioritized = true});
  buffer.load(path + "/" + kReplayFile);
  buffer.append_state(old.algorithm_state);
  for (NamedArray& entry : old.algorithm_state.entries) {
    if (entry.name == "dqn/counters") {
      const int64_t* n = entry.array.data<int64_t>();
      entry.array = Array::from<int64_t>({n[0], n[1]});
    }
  }
  old.policy = policy_metadata("mlp", {{4}, DType::kF32, 2, 0});
  EXPECT_EQ(save_checkpoint(c.run, old), path);
  EXPECT_FALSE(fs::exists(path + "/" + kReplayFile));
  c.steps = whole.steps;
  run(c);
  EXPECT_EQ(curve(c.run), curve(whole.run));
  EXPECT_EQ(final_weights(c.run), final_weights(whole.run));
}

TEST(ReplayRun, AFullDiskLeavesTheLastCheckpointWithItsBuffer) {
  SmallDisk disk(1024);
  if (!disk.mounted()) GTEST_SKIP() << "only root may mount a small file system";
  const std::string run_dir = disk.file("run");
  Checkpoint c;
  c.progress.steps = 10;
  c.weights.entries.push_back({"w", Array::from<float>({1})});
  c.config = "{}";
  const auto writer = [](size_t bytes) {
    return [bytes](const std::string& path) { write_file_atomically(path, std::string(bytes, 'x')); };
  };
  c.save_replay = writer(600'000);
  const std::string first = save_checkpoint(run_dir, c);
  c.progress.steps = 20;
  const std::string error = error_of([&] { save_checkpoint(run_dir, c); });
  EXPECT_THAT(error, HasSubstr("No space left"));
  EXPECT_THAT(error, HasSubstr(kReplayFile));
  EXPECT_EQ(latest_checkpoint(run_dir), first);
  EXPECT_EQ(read_file(first + "/" + kReplayFile).size(), 600'000u);
  c.save_replay = writer(100'000);
  const std::string second = save_checkpoint(run_dir, c);
  prune_checkpoints(run_dir, 3);
  EXPECT_FALSE(fs::exists(first + "/" + kReplayFile));
  EXPECT_TRUE(fs::exists(second + "/" + kReplayFile));
}

TEST(ReplayRun, MoreMemoryThanThereIsIsRefusedAtTheStart) {
  TempDir dir;
  TrainConfig c = rainbow_config(dir.file("run"));
  c.settings.as<DqnConfig>().replay_capacity = 1'000'000'000'000;
  const std::string error = error_of([&] { run(c); });
  EXPECT_THAT(error, HasSubstr("--replay-capacity"));
  EXPECT_THAT(error, HasSubstr("--ignore-memory"));
  EXPECT_FALSE(latest_checkpoint(c.run));
}

TEST(ReplayRun, ADistributionalNetworkPlaysWithoutItsAlgorithm) {
  TempDir dir;
  TrainConfig c = rainbow_config(dir.file("run"));
  c.steps = 640;
  run(c);
  const auto policy = load_policy(*latest_checkpoint(c.run));
  EXPECT_EQ(policy->spec().num_actions, 2);
  const LoadedRun loaded = load_run(*latest_checkpoint(c.run));
  const at::Tensor obs = torch::randn({32, 4});
  const ActOutput greedy = loaded.algorithm->predict(obs);
  EXPECT_TRUE(policy->act(obs).equal(greedy.action));
  EXPECT_TRUE(policy->forward(obs).logits.equal(greedy.logits));  // the Q-values
}

ActorPool::Options pool_options(int64_t max_ahead) {
  ActorPool::Options options;
  options.actors = 4;
  options.max_ahead = max_ahead;
  return options;
}

TEST(MaxAhead, ActorsWaitForTheLearner) {
  RemoteManager manager("thread");
  std::vector<ActorConfig> configs(4);
  for (int i = 0; i < 4; ++i) {
    ActorConfig& c = configs[static_cast<size_t>(i)];
    c.env = "CartPole-v1", c.model = "mlp", c.algorithm = "impala", c.envs = 2, c.length = 8;
    c.actor = i, c.first_env = 2 * i;
  }
  ActorPool pool(manager, pool_options(32), configs);  // two rollouts of 16 steps
  const auto env = program().envs.make({.id = "CartPole-v1"});
  pool.publish(0, program().models.make("mlp", model_spec_of(env->spec()))->get_weights());
  pool.start();
  const auto patience = [asked = 0]() mutable { return ++asked > 2; };
  EXPECT_TRUE(pool.next({}));
  EXPECT_TRUE(pool.next({}));
  EXPECT_FALSE(pool.next(patience));  // four actors are free, and none may begin
  EXPECT_EQ(pool.ahead(), 32);
  for (int i = 0; i < 20; ++i) {
    pool.learnt(16);
    EXPECT_TRUE(pool.next({}));
    EXPECT_LE(pool.ahead(), 32);
  }
  pool.stop();
}

TEST(MaxAhead, ARunKeepsToItAndEnds) {
  TempDir dir;
  TrainConfig c = testing::small_config(dir.file("run"));
  c.actors = 4, c.batch_rollouts = 2, c.max_ahead = 64;  // one batch
  EXPECT_EQ(run(c).steps, 2048);
  c = testing::small_config(dir.file("fails"));
  c.env = "Scripted-v0";
  c.env_args = {{"fault", "throw"}, {"at", "4"}, {"marker", dir.file("marker")}, {"limit", "9"}};
  c.max_ahead = 64;  // what the lost actor was making is given back
  EXPECT_EQ(run(c).actors_replaced, 1);
  c.max_ahead = 63;
  EXPECT_THAT(error_of([&] { c.check(); }), HasSubstr("--max-ahead 63"));
}

}  // namespace
}  // namespace parl
