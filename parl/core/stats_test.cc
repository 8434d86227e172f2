#include "parl/core/stats.h"

#include <gtest/gtest.h>

namespace parl {
namespace {

TEST(RunningStat, MatchesDirectFormulas) {
  RunningStat stat;
  EXPECT_TRUE(std::isnan(stat.mean()));
  for (double x : {1e6 + 1, 1e6 + 2, 1e6 + 3, 1e6 + 6}) stat.add(x);
  EXPECT_DOUBLE_EQ(stat.mean(), 1e6 + 3);
  EXPECT_NEAR(stat.variance(), 3.5, 1e-9);
  EXPECT_EQ(stat.min(), 1e6 + 1);
  EXPECT_EQ(stat.max(), 1e6 + 6);
}

TEST(WindowStat, ForgetsTheOldest) {
  WindowStat window(3);
  EXPECT_TRUE(std::isnan(window.mean()));
  for (double x : {100.0, 1.0, 2.0}) window.add(x);
  EXPECT_TRUE(window.full());
  window.add(3.0);
  EXPECT_DOUBLE_EQ(window.mean(), 2.0);
  EXPECT_EQ(window.count(), 3u);
}

}  // namespace
}  // namespace parl
