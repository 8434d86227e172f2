#include "cli/env_rate.h"

#include <gtest/gtest.h>

#include "parl/env/registry.h"

namespace parl::cli {
namespace {

TEST(EnvRate, MeasuresEveryNumberOfThreadsForBothKindsOfActions) {
  EnvRegistry registry;
  register_builtin_envs(registry);
  for (const char* id : {"CartPole-v1", "Pendulum-v1"}) {
    const auto rates = measure_env_rates({.threads = 2, .envs = 4, .seconds = 0.05},
                                         [&] { return registry.vector_factory({.id = id}, 4); });
    ASSERT_EQ(rates.size(), 2u);
    EXPECT_EQ(rates[0].threads, 1);
    EXPECT_EQ(rates[1].threads, 2);
    EXPECT_GT(rates[0].sync_steps_per_s, 1000);
    EXPECT_EQ(rates[0].async_steps_per_s, 0);
    EXPECT_GT(rates[1].sync_steps_per_s, 0);
    EXPECT_GT(rates[1].async_steps_per_s, 0);
    EXPECT_EQ(rates[1].best(), std::max(rates[1].sync_steps_per_s, rates[1].async_steps_per_s));
  }
}

}  // namespace
}  // namespace parl::cli
