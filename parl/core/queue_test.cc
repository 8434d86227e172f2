#include "parl/core/queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace parl {
namespace {

TEST(Queue, KeepsOrderAndBound) {
  Queue<int> queue(2);
  EXPECT_TRUE(queue.push(1));
  EXPECT_TRUE(queue.push(2));
  int third = 3;
  EXPECT_FALSE(queue.try_push(third));
  EXPECT_EQ(third, 3);
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_TRUE(queue.try_push(third));
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), 3);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(Queue, CloseDrainsThenEnds) {
  Queue<int> queue(4);
  queue.push(1);
  queue.close();
  EXPECT_FALSE(queue.push(2));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(Queue, CloseWakesWaiters) {
  Queue<int> full(1), empty(1);
  full.push(0);
  std::thread producer([&] { EXPECT_FALSE(full.push(1)); });
  std::thread consumer([&] { EXPECT_EQ(empty.pop(), std::nullopt); });
  full.close();
  empty.close();
  producer.join();
  consumer.join();
}

TEST(Queue, ManyProducersLoseNothing) {
  Queue<int> queue(3);
  std::vector<std::thread> producers;
  for (int p = 0; p < 4; ++p) {
    producers.emplace_back([&queue] {
      for (int i = 1; i <= 500; ++i) queue.push(i);
    });
  }
  int64_t sum = 0;
  for (int i = 0; i < 2000; ++i) sum += queue.pop().value();
  for (auto& t : producers) t.join();
  EXPECT_EQ(sum, 4 * 500 * 501 / 2);
}

TEST(Queue, PopForEndsWithoutItem) {
  Queue<int> queue(1);
  EXPECT_EQ(queue.pop_for(std::chrono::milliseconds(1)), std::nullopt);
}

}  // namespace
}  // namespace parl
