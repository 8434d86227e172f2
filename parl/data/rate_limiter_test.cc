#include "parl/data/rate_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace parl {
namespace {

TEST(RateLimiter, NoMoreThanTheBoundIsAhead) {
  RateLimiter limiter(100);
  EXPECT_TRUE(limiter.try_start(60));
  EXPECT_TRUE(limiter.try_start(40));
  EXPECT_FALSE(limiter.try_start(1));
  limiter.done(30);
  EXPECT_FALSE(limiter.try_start(31));
  EXPECT_TRUE(limiter.try_start(30));
  EXPECT_EQ(limiter.ahead(), 100);
}

TEST(RateLimiter, WhatIsTooLargeGoesAlone) {
  RateLimiter limiter(10);
  EXPECT_TRUE(limiter.try_start(64));
  EXPECT_FALSE(limiter.try_start(1));
  limiter.done(64);
  EXPECT_TRUE(limiter.try_start(1));
  EXPECT_FALSE(limiter.try_start(64));
}

TEST(RateLimiter, ZeroIsNoBound) {
  RateLimiter limiter(0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(limiter.try_start(1'000'000));
}

// Actors that go as fast as they may: at no time is more ahead than the bound, and all of it is made in the end.
TEST(RateLimiter, ManyThreadsKeepToIt) {
  RateLimiter limiter(64);
  std::atomic<int64_t> ahead{0}, most{0};
  std::vector<std::thread> actors;
  for (int a = 0; a < 4; ++a) {
    actors.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        ASSERT_TRUE(limiter.start(16));
        const int64_t now = ahead += 16;
        for (int64_t seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
      }
    });
  }
  for (int64_t learnt = 0; learnt < 4 * 50 * 16;) {
    if (ahead < 16) {
      std::this_thread::yield();
      continue;
    }
    ahead -= 16;
    limiter.done(16);
    learnt += 16;
  }
  for (std::thread& actor : actors) actor.join();
  EXPECT_LE(most, 64);
  EXPECT_EQ(limiter.ahead(), 0);
}

TEST(RateLimiter, ClosingWakesWhoWaits) {
  RateLimiter limiter(1);
  EXPECT_TRUE(limiter.start(1));
  std::thread waiter([&] { EXPECT_FALSE(limiter.start(1)); });
  limiter.close();
  waiter.join();
  EXPECT_FALSE(limiter.try_start(1));
}

}  // namespace
}  // namespace parl
