// A run whose actors live in worker processes that dialled in, and die.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "parl/core/check.h"
#include "parl/train/presets.h"
#include "parl/train/train_test_util.h"
#include "parl/train/trainer.h"

namespace parl {
namespace {

using testing::TempDir;

// This program as a worker with one slot: its main calls parl::init, which does not return there.
class Worker {
 public:
  explicit Worker(const std::string& address) {
    const char* argv[] = {"/proc/self/exe", "--parl-worker", address.c_str(), nullptr};
    const int failed = posix_spawn(&pid_, argv[0], nullptr, nullptr, const_cast<char**>(argv), environ);
    PARL_CHECK(failed == 0, "cannot start a worker");
  }
  ~Worker() { kill9(); }
  void kill9() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

TEST(TcpRun, LearnsOnWhileWorkersAreKilled) {
  TempDir dir;
  TrainConfig config;
  config.env = "CartPole-v1";
  apply_preset(config, default_preset(config.env, config.algorithm));
  config.run = dir.file("run");
  config.engine = "unix:" + dir.file("socket");
  config.steps = 400'000;
  config.until_return = 195;
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(std::make_unique<Worker>(config.engine));
  TrainHooks hooks;
  hooks.show_status = false;
  hooks.on_update = [&](const UpdateInfo& update) {
    // Two actors, three workers: one worker takes over at once, then newly started ones do.
    if (update.updates != 5 && update.updates != 15 && update.updates != 25) return;
    workers.front()->kill9();
    workers.erase(workers.begin());
    workers.push_back(std::make_unique<Worker>(config.engine));
  };
  const TrainSummary summary = train(config, hooks);
  EXPECT_EQ(summary.stop_reason, "until_return");
  // The first two of those killed were at work; the third may have been the spare one.
  EXPECT_GE(summary.actors_replaced, 2);  // each lost the one rollout that it was making
  EXPECT_LE(summary.actors_replaced, 3);
}

}  // namespace
}  // namespace parl
