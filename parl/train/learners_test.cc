// Learners of one run: as threads of this process with a group over loopback, and as processes where one must die.
#include "parl/train/learners.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "parl/agent/nonfinite.h"
#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/core/clock.h"
#include "parl/core/files.h"
#include "parl/train/checkpoint.h"
#include "parl/train/metrics.h"
#include "parl/train/train_test_util.h"

namespace parl {
namespace {

using testing::small_config;
using testing::TempDir;

struct Outcome {
  TrainSummary summary;
  std::string error;
  bool nonfinite = false, lost = false;
};

Outcome attempt(const TrainConfig& config, TrainHooks hooks = {}) {
  Outcome out;
  hooks.show_status = false;
  try {
    out.summary = train(config, hooks);
  } catch (const NonFiniteError& error) {
    out.error = error.what(), out.nonfinite = true;
  } catch (const LearnerLost& error) {
    out.error = error.what(), out.lost = true;
  } catch (const std::exception& error) {
    out.error = error.what();
  }
  return out;
}

std::string free_address() {
  LearnerGroup group({.rank = 0, .size = 2});
  return fmt::format("127.0.0.1:{}", group.port());
}

// Two learners in threads of this process, as two commands would be.
std::vector<Outcome> two(const TrainConfig& config, const std::function<void(int, TrainConfig&, TrainHooks&)>& change) {
  const std::string address = free_address();
  std::vector<Outcome> out(2);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      TrainConfig own = config;
      own.learners = 2;
      own.learner_rank = r;
      own.learner_address = address;
      own.learner_timeout = 30;
      TrainHooks hooks;
      change(r, own, hooks);
      out[static_cast<size_t>(r)] = attempt(own, hooks);
    });
  }
  for (std::thread& t : threads) t.join();
  return out;
}

TrainConfig pair_config(const std::string& run) {
  TrainConfig c = small_config(run);
  c.actors = 1;
  c.deterministic = true;
  c.settings.as<ImpalaConfig>().minibatches = 1;  // several would be drawn from each learner's part
  return c;
}

at::Tensor final_weights(const std::string& run) {
  std::vector<at::Tensor> parts;
  for (const NamedArray& entry : load_checkpoint(*latest_checkpoint(run)).weights.entries)
    parts.push_back(to_tensor(entry.array).flatten());
  return torch::cat(parts);
}

TEST(Learners, TwoEqualOneWithAllTheActors) {
  TempDir dir;
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
    TrainConfig c = pair_config(dir.file(fmt::format("two-{}", static_cast<int>(reduction))));
    c.settings.as<ImpalaConfig>().loss_reduction = reduction;
    c.steps = 64 * 6;  // later, rounding may choose another action
    c.learners = 2;    // the other one is started here, as a process
    const Outcome both = attempt(c);
    ASSERT_EQ(both.error, "");
    EXPECT_EQ(both.summary.steps, 64 * 6);
    EXPECT_EQ(both.summary.updates, 6);
    EXPECT_TRUE(std::filesystem::exists(c.run + "/learner-1/log.txt"));

    TrainConfig one = c;
    one.learners = 1;
    one.actors = 2;
    one.run += "-one";
    const Outcome alone = attempt(one);
    ASSERT_EQ(alone.error, "");
    EXPECT_EQ(alone.summary.episodes, both.summary.episodes);
    const at::Tensor a = final_weights(c.run), b = final_weights(one.run);
    EXPECT_TRUE(torch::allclose(a, b, 1e-4, 1e-5)) << (a - b).abs().max().item<float>();
    const MetricsTable ours = read_metrics(c.run + "/metrics.csv"), theirs = read_metrics(one.run + "/metrics.csv");
    for (const char* name : {"updates", "episodes", "policy_lag_mean", "grad_norm", "kl", "entropy"}) {
      const auto x = ours.column(name), y = theirs.column(name);
      ASSERT_EQ(x.size(), y.size());
      for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-4) << name;
    }
  }
}

TEST(Learners, ContinueExactlyAlsoAsOne) {
  TempDir dir;
  const auto nothing = [](int, TrainConfig&, TrainHooks&) {};
  TrainConfig whole = pair_config(dir.file("whole"));
  whole.steps = 64 * 12;
  whole.settings.as<ImpalaConfig>().minibatches = 2;
  ASSERT_EQ(two(whole, nothing)[0].error, "");
  TrainConfig parts = whole;
  parts.run = dir.file("parts");
  parts.steps = 64 * 5;
  ASSERT_EQ(two(parts, nothing)[0].error, "");
  std::filesystem::copy(parts.run, dir.file("one"), std::filesystem::copy_options::recursive);
  parts.steps = whole.steps;
  const std::vector<Outcome> rest = two(parts, nothing);
  ASSERT_EQ(rest[0].error, "");
  EXPECT_EQ(rest[0].summary.steps, whole.steps);
  EXPECT_EQ(rest[1].summary.updates, 12);
  EXPECT_TRUE(torch::equal(final_weights(whole.run), final_weights(parts.run)));

  TrainConfig one = parts;
  one.run = dir.file("one");
  EXPECT_NE(attempt(one).error.find("--actors"), std::string::npos);  // one actor is not two
  one.actors = 2;
  const Outcome alone = attempt(one);
  EXPECT_EQ(alone.error, "");
  EXPECT_EQ(alone.summary.steps, whole.steps);
}

TEST(Learners, StopTogether) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("stop"));
  c.steps = 1'000'000;
  std::atomic<bool> stop{false};
  const auto out = two(c, [&](int rank, TrainConfig&, TrainHooks& hooks) {
    if (rank != 1) return;
    hooks.stop = &stop;
    hooks.on_update = [&](const UpdateInfo& update) { stop = stop || update.updates == 3; };
  });
  for (const Outcome& o : out) {
    EXPECT_EQ(o.error, "");
    EXPECT_EQ(o.summary.stop_reason, "interrupted");
    EXPECT_EQ(o.summary.steps, out[0].summary.steps);
  }
  EXPECT_EQ(load_checkpoint(*latest_checkpoint(c.run)).progress.steps, out[0].summary.steps);
  EXPECT_FALSE(latest_checkpoint(c.run + "/learner-1"));

  TrainConfig until = small_config(dir.file("until"));
  until.steps = 1'000'000;
  until.until_return = 15;
  const auto good = two(until, [](int, TrainConfig&, TrainHooks&) {});
  for (const Outcome& o : good) {
    EXPECT_EQ(o.error, "");
    EXPECT_EQ(o.summary.stop_reason, "until_return");
    EXPECT_EQ(o.summary.return_mean_100, good[0].summary.return_mean_100);
    EXPECT_EQ(o.summary.episodes, good[0].summary.episodes);
  }
}

TEST(Learners, WhatOneMeetsEndsAll) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("nan"));
  c.actors = 1;
  c.envs_per_actor = 1;
  c.settings.as<ImpalaConfig>().minibatches = 1;
  c.env = "Scripted-v0";
  c.env_args = {{"fault", "nan"}, {"marker", dir.file("nan.marker")}};
  const auto nan = two(c, [](int, TrainConfig&, TrainHooks&) {});
  EXPECT_EQ(nan[0].nonfinite + nan[1].nonfinite, 1);
  const std::string& other = nan[nan[0].nonfinite ? 1 : 0].error;
  EXPECT_NE(other.find(nan[0].nonfinite ? "learner 0 of 2 met NaN" : "learner 1 of 2 met NaN"), std::string::npos)
      << other;

  c.run = dir.file("throw");
  c.env_args = {{"fault", "throw"}, {"marker", dir.file("throw.marker")}};  // one environment of one learner
  c.max_replacements = 0;
  const auto failed = two(c, [](int, TrainConfig&, TrainHooks&) {});
  for (const Outcome& o : failed) EXPECT_NE(o.error.find("the simulator broke"), std::string::npos) << o.error;
  EXPECT_NE(failed[0].error.starts_with("learner 1: "), failed[1].error.starts_with("learner 0: "));
}

// The children of this process that are alive.
std::vector<pid_t> children() {
  std::vector<pid_t> out;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "children");
    for (pid_t pid = 0; file >> pid;) out.push_back(pid);
  }
  return out;
}

TEST(Learners, OneThatIsKilledEndsTheOther) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("killed"));
  c.steps = 10'000'000;
  c.learners = 2;
  c.checkpoint_steps = 128;
  Clock::time_point killed;
  TrainHooks hooks;
  hooks.on_update = [&](const UpdateInfo& update) {
    if (update.updates != 5) return;
    const auto all = children();
    ASSERT_EQ(all.size(), 1u);
    killed = Clock::now();
    ::kill(all[0], SIGKILL);
  };
  const Outcome out = attempt(c, hooks);
  EXPECT_LT(seconds_since(killed), 8);
  EXPECT_TRUE(out.lost);
  EXPECT_NE(out.error.find("learner 1"), std::string::npos) << out.error;
  ASSERT_TRUE(latest_checkpoint(c.run));
  EXPECT_GT(load_checkpoint(*latest_checkpoint(c.run)).progress.updates, 0);  // the last one is good
}

TEST(Learners, OneThatHangsEndsTheOtherAfterTheTimeout) {
  TempDir dir;
  TrainConfig c = small_config(dir.file("hangs"));
  c.steps = 10'000'000;
  c.learners = 2;
  c.learner_timeout = 2;
  pid_t stopped = 0;
  TrainHooks hooks;
  Clock::time_point since;
  hooks.on_update = [&](const UpdateInfo& update) {
    if (update.updates != 5) return;
    const auto all = children();
    ASSERT_EQ(all.size(), 1u);
    since = Clock::now();
    stopped = all[0];
    ::kill(stopped, SIGSTOP);
  };
  const Outcome out = attempt(c, hooks);
  EXPECT_TRUE(out.lost);
  EXPECT_NE(out.error.find("--learner-timeout"), std::string::npos) << out.error;
  EXPECT_LT(seconds_since(since), 20);
}

TEST(Learners, GroupNamesWhoIsGone) {
  const std::string address = free_address();
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      LearnerGroup group({.rank = r, .size = 3, .port = port, .timeout = 20});
      group.join();
      EXPECT_EQ(group.gather(std::string(static_cast<size_t>(r), 'x')), (std::vector<std::string>{"", "x", "xx"}));
      EXPECT_EQ(group.from_first(r == 0 ? "first" : "other"), "first");
      at::Tensor t = torch::full({1000}, 0.1f * static_cast<float>(r + 1));
      group.sum(t);
      EXPECT_NEAR(t[999].item<float>(), 0.6, 1e-6);
      if (r == 1) return group.leave("the disk is full");
      try {
        group.gather("more");
      } catch (const LearnerLost& error) {
        errors[static_cast<size_t>(r)] = error.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const int r : {0, 2}) {
    EXPECT_NE(errors[static_cast<size_t>(r)].find("learner 1 ended: the disk is full"), std::string::npos)
        << errors[static_cast<size_t>(r)];
  }
}

TEST(Learners, RefusesWhatCannotBe) {
  TempDir dir;
  const auto refused = [&](const std::string& part, const std::function<void(TrainConfig&)>& change) {
    TrainConfig c = small_config(dir.file("refused"));
    c.learners = 2;
    change(c);
    const Outcome out = attempt(c);
    EXPECT_NE(out.error.find(part), std::string::npos) << out.error;
    EXPECT_FALSE(std::filesystem::exists(c.run));
  };
  refused("dqn learns alone", [](TrainConfig& c) {
    const TrainConfig dqn = train_config_of(R"({"algorithm": "dqn"})", "test");
    c.algorithm = "dqn", c.settings = dqn.settings;
  });
  refused("--learner-address belong together", [](TrainConfig& c) { c.learner_rank = 0; });
  refused("--learner-rank is 2", [](TrainConfig& c) { c.learner_rank = 2, c.learner_address = "localhost:1"; });
  refused("expected host:port", [](TrainConfig& c) { c.learner_rank = 0, c.learner_address = "localhost"; });
  refused("of more than 1", [](TrainConfig& c) { c.learners = 1, c.learner_rank = 0; });
  refused("cannot listen at 192.0.2.1:29511",
          [](TrainConfig& c) { c.learner_rank = 0, c.learner_address = "192.0.2.1:29511"; });
  refused("has not come within",
          [](TrainConfig& c) { c.learner_rank = 0, c.learner_address = free_address(), c.learner_timeout = 0.3; });
  const auto differ = two(small_config(dir.file("refused")), [](int rank, TrainConfig& own, TrainHooks&) {
    if (rank == 1) own.settings.as<ImpalaConfig>().lr = 0.5;
  });
  for (const Outcome& o : differ) {
    EXPECT_NE(o.error.find("learner 1 was started with other settings than learner 0: impala.lr"), std::string::npos)
        << o.error;
  }
}

TEST(Learners, TakeTheirPlaceFromTorchrunsEnvironment) {
  TrainConfig config;
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}}) {
    EXPECT_EQ(with_learner_place(config).learners, 1);  // all four, or nothing
    ::setenv(name, value, 1);
  }
  const TrainConfig placed = with_learner_place(config);
  EXPECT_EQ(placed.learners, 4);
  EXPECT_EQ(placed.learner_rank, 1);
  EXPECT_EQ(placed.learner_address, "10.0.0.1:29500");
  config.learners = 2;
  EXPECT_THROW(with_learner_place(config), Error);
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) ::unsetenv(name);
}

}  // namespace
}  // namespace parl
