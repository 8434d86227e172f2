#include "parl/train/central_queue.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "parl/core/check.h"

namespace parl {
namespace {

using Options = PredictionQueue::Options;

// An actor that asks for actions again and again, in a thread of its own.
class Asker {
 public:
  Asker(PredictionQueue& queue, int actor, int64_t rows, int rounds = 1)
      : thread_([&queue, actor, rows, rounds, this] {
          for (int i = 0; i < rounds; ++i) {
            PredictionRequest request;
            request.actor = actor;
            request.obs = torch::zeros({rows, 1});
            if (!queue.ask(request)) return;
            ++answers_;
          }
        }) {}
  ~Asker() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  int answers() const { return answers_; }

 private:
  std::atomic<int> answers_{0};
  std::thread thread_;
};

std::vector<int> actors_of(const std::vector<PredictionRequest*>& batch) {
  std::vector<int> out;
  for (const PredictionRequest* r : batch) out.push_back(r->actor);
  std::sort(out.begin(), out.end());
  return out;
}

TEST(PredictionQueue, ABatchWithTimeWaitsUntilItIsFullOrEverybodyIsThere) {
  PredictionQueue everybody(Options{.actors = 3, .max_rows = 100, .wait = std::chrono::hours(1)});
  Asker a(everybody, 0, 2), b(everybody, 1, 2), c(everybody, 2, 2);
  auto batch = everybody.take();  // not before all three ask, and then without the hour
  EXPECT_EQ(actors_of(batch), (std::vector<int>{0, 1, 2}));
  everybody.answer(batch);

  PredictionQueue full(Options{.actors = 4, .max_rows = 5, .wait = std::chrono::hours(1)});
  Asker d(full, 0, 2), e(full, 1, 2), f(full, 2, 2);  // six rows, of which four fit; the fourth actor never comes
  batch = full.take();
  EXPECT_EQ(batch.size(), 2u);
  full.answer(batch);
  full.close();
}

TEST(PredictionQueue, WithoutTimeItTakesWhatIsThere) {
  PredictionQueue queue(Options{.actors = 2, .max_rows = 100});
  Asker a(queue, 1, 3);
  const auto batch = queue.take();
  EXPECT_EQ(actors_of(batch), (std::vector<int>{1}));
  queue.answer(batch);
  a.join();
  EXPECT_EQ(a.answers(), 1);
  const auto figures = queue.take_figures();
  EXPECT_EQ(figures.batches, 1);
  EXPECT_EQ(figures.rows, 3);
  EXPECT_EQ(figures.left_share, 0);
  EXPECT_EQ(queue.take_figures().batches, 0);
}

TEST(PredictionQueue, ARequestLargerThanABatchIsTakenAlone) {
  PredictionQueue queue(Options{.actors = 1, .max_rows = 2});
  Asker a(queue, 0, 7);
  const auto batch = queue.take();
  ASSERT_EQ(batch.size(), 1u);
  queue.answer(batch);
}

TEST(PredictionQueue, OneBatchHasOneVersion) {
  PredictionQueue queue(Options{.actors = 2, .max_rows = 100, .wait = std::chrono::hours(1)});
  PredictionRequest old, young;
  old.actor = 0, young.actor = 1;
  old.obs = young.obs = torch::zeros({1, 1});
  old.weights = Versioned<Weights>(3, Weights{}), young.weights = Versioned<Weights>(4, Weights{});
  std::thread first([&] { queue.ask(old); }), second([&] { queue.ask(young); });
  const auto batch = queue.take();  // when both are there
  EXPECT_EQ(batch.size(), 1u);
  queue.answer(batch);
  queue.close();  // the other one would wait the hour for the first
  first.join();
  second.join();
  EXPECT_NE(old.state, young.state);
}

TEST(PredictionQueue, LockStepIsEverybodyInTheOldestRollout) {
  PredictionQueue queue(Options{.actors = 3, .lock_step = true, .first_sequence = 5});
  Asker a(queue, 2, 1, 2), b(queue, 0, 1, 2), c(queue, 1, 1, 2);
  for (int i = 0; i < 2; ++i) {
    const auto batch = queue.take();
    ASSERT_EQ(batch.size(), 3u);
    for (int k = 0; k < 3; ++k) EXPECT_EQ(batch[static_cast<size_t>(k)]->actor, k);  // in order, whoever came first
    queue.answer(batch);
  }
  a.join(), b.join(), c.join();
  // Actors 0 and 2 go on to the next rollout; 1 has to make this one again: nobody waits for who waits for it.
  queue.finish_rollout(0);
  queue.finish_rollout(2);
  Asker ahead(queue, 0, 1), again(queue, 1, 1);
  auto batch = queue.take();
  EXPECT_EQ(actors_of(batch), (std::vector<int>{1}));
  queue.answer(batch);
  again.join();
  queue.finish_rollout(1);
  Asker second(queue, 1, 1), third(queue, 2, 1);
  batch = queue.take();
  EXPECT_EQ(actors_of(batch), (std::vector<int>{0, 1, 2}));
  queue.answer(batch);
}

TEST(PredictionQueue, CloseWakesEverybodyButNotBeforeTheAnswer) {
  PredictionQueue queue(Options{.actors = 2, .max_rows = 1});
  Asker taken(queue, 0, 1);
  const auto batch = queue.take();
  std::thread predictor([&] { EXPECT_TRUE(queue.take().empty()); });
  queue.close();
  predictor.join();
  Asker late(queue, 1, 1);
  late.join();
  EXPECT_EQ(late.answers(), 0);
  EXPECT_EQ(taken.answers(), 0);  // still being answered
  queue.answer(batch);
  taken.join();
  EXPECT_EQ(taken.answers(), 1);
}

TEST(PredictionQueue, CloseWakesWhoWaits) {
  PredictionQueue queue(Options{.actors = 2, .max_rows = 1});
  Asker waiting(queue, 1, 1);
  queue.close();  // before or after it asks: the same
  waiting.join();
  EXPECT_EQ(waiting.answers(), 0);
}

TEST(PredictionQueue, AnErrorReachesWhoAsked) {
  PredictionQueue queue(Options{.actors = 1});
  std::thread predictor([&] {
    const auto batch = queue.take();
    batch[0]->error = std::make_exception_ptr(Error("the network broke"));
    queue.answer(batch);
  });
  PredictionRequest request;
  request.obs = torch::zeros({1, 1});
  EXPECT_THROW(queue.ask(request), Error);
  predictor.join();
}

}  // namespace
}  // namespace parl
