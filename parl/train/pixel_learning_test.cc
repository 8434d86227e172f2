// The whole chain from pixels to a policy, quick enough for every test run: environment, network, actors, learner.
#include <gtest/gtest.h>

#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/train_test_util.h"
#include "parl/train/trainer.h"

namespace parl {
namespace {

TrainSummary learn_catch(const std::string& algorithm, int64_t seed) {
  testing::TempDir dir;
  TrainConfig c = program().config_of(algorithm);
  c.env = "pixel:catch";
  apply_preset(c, default_preset(c.env, c.algorithm));
  c.run = dir.file("run");
  c.seed = seed;
  c.deterministic = true;
  c.steps = 200'000;
  c.until_return = 0.95;
  TrainHooks hooks;
  hooks.show_status = false;
  return train(c, hooks);
}

TEST(PixelLearning, ImpalaCatchesTheBall) {
  const TrainSummary summary = learn_catch("impala", 1);
  EXPECT_EQ(summary.stop_reason, "until_return") << "after " << summary.steps << " steps";
  EXPECT_GE(summary.return_mean_100, 0.95);
}

}  // namespace
}  // namespace parl
