// A Gymnasium environment in Python, from the command's settings to a policy, in threads and in processes.
#include <gtest/gtest.h>

#include <cstdlib>

#include "parl/train/evaluate.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/train_test_util.h"
#include "parl/train/trainer.h"

namespace parl {
namespace {

class GymTraining : public ::testing::TestWithParam<std::string> {};

TEST_P(GymTraining, LearnsAndPlays) {
  const std::string python = PARL_PYTHON;
  if (python.empty() || std::system(("'" + python + "' -c 'import gymnasium' >/dev/null 2>&1").c_str()) != 0) {
    GTEST_SKIP() << "set-up's Python (PARL_PYTHON) has no gymnasium";
  }
  testing::TempDir dir;
  TrainConfig c = program().config_of("ppo");
  c.env = "gym:CartPole-v1";
  EXPECT_EQ(default_preset(c.env, "ppo"), "classic");
  apply_preset(c, default_preset(c.env, "ppo"));
  c.env_args = {{"python", python}};
  c.engine = GetParam();
  c.actors = 1;
  c.steps = 4'096;
  c.run = dir.file("run");
  double longest = 0;
  TrainHooks hooks;
  hooks.show_status = false;
  hooks.on_episode = [&](const Episode& episode, int64_t) { longest = std::max(longest, episode.raw_return); };
  const TrainSummary summary = train(c, hooks);
  EXPECT_EQ(summary.stop_reason, "steps");
  EXPECT_GT(longest, 40) << "random play gives 22, and nothing was learnt";
  EvalOptions options;
  options.env = c.env;
  options.env_args = c.env_args;
  options.episodes = 3;
  const EvalSummary eval = evaluate(*load_run(c.run).algorithm, options);
  EXPECT_EQ(eval.episodes.size(), 3u);
  EXPECT_NEAR(eval.return_mean, eval.length_mean, 1e-6);  // a reward of 1 a step
}

INSTANTIATE_TEST_SUITE_P(Engines, GymTraining, ::testing::Values("thread", "process"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace parl
