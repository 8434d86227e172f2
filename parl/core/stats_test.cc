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

TEST(Moments, MergedAreThoseOfAllValues) {
  Moments all, merged;
  EXPECT_TRUE(std::isnan(all.variance()));
  int value = 0;
  for (const int count : {1, 0, 5, 14}) {  // 1..20: mean 10.5, variance (20^2 - 1) / 12
    Moments part;
    for (int i = 0; i < count; ++i) part.add(1e6 + ++value), all.add(1e6 + value);
    merged.merge(part);
  }
  for (const Moments& m : {all, merged}) {
    EXPECT_EQ(m.count, 20);
    EXPECT_NEAR(m.mean, 1e6 + 10.5, 1e-9);
    EXPECT_NEAR(m.variance(), 399.0 / 12, 1e-9);
  }
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
