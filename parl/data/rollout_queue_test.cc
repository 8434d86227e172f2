#include "parl/data/rollout_queue.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "parl/core/check.h"

namespace parl {
namespace {

Rollout numbered(int actor, int sequence) {
  Rollout r;
  r.actor = actor;
  r.sequence = sequence;
  return r;
}

TEST(RolloutQueue, AtMostOneWaitsPerActor) {
  RolloutQueue queue(2);
  EXPECT_TRUE(queue.push(0, numbered(0, 0)));
  auto second = std::async(std::launch::async, [&] { return queue.push(0, numbered(0, 1)); });
  EXPECT_TRUE(queue.push(1, numbered(1, 0)));  // another actor is not held up
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.pop()->actor, 0);
  EXPECT_TRUE(second.get());
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.pop()->actor, 1);
  EXPECT_EQ(queue.pop()->sequence, 1);
}

TEST(RolloutQueue, PopFromTakesInActorOrder) {
  RolloutQueue queue(2);
  queue.push(1, numbered(1, 0));
  queue.push(0, numbered(0, 0));
  EXPECT_EQ(queue.pop_from(0)->actor, 0);
  EXPECT_EQ(queue.pop_from(1)->actor, 1);
}

TEST(RolloutQueue, WaitAllCopiesInOrderAndLeavesThem) {
  RolloutQueue queue(2);
  queue.push(1, numbered(1, 7));
  std::thread late([&] { queue.push(0, numbered(0, 9)); });
  const auto copies = queue.wait_all_and_copy();
  late.join();
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].sequence, 9);
  EXPECT_EQ(copies[1].sequence, 7);
  EXPECT_EQ(queue.size(), 2u);
}

TEST(RolloutQueue, CloseEndsEverybodyAndDrains) {
  RolloutQueue queue(1);
  queue.push(0, numbered(0, 0));
  std::thread blocked([&] { EXPECT_FALSE(queue.push(0, numbered(0, 1))); });
  std::thread waiting([&] { EXPECT_FALSE(queue.wait_free(0)); });
  queue.close();
  blocked.join();
  waiting.join();
  EXPECT_TRUE(queue.pop().has_value());
  EXPECT_FALSE(queue.pop().has_value());
}

TEST(RolloutQueue, FailureReachesTheLearner) {
  RolloutQueue queue(1);
  queue.fail(std::make_exception_ptr(Error("too many actors died")));
  EXPECT_THROW(queue.pop(), Error);
  EXPECT_THROW(queue.pop_from(0), Error);
}

}  // namespace
}  // namespace parl
