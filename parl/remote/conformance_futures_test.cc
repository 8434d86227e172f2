// Futures, deadlines, cancelling, back-pressure. The table of the suite is in conformance.h.
#include <fstream>

#include "parl/core/log.h"
#include "parl/remote/conformance.h"

namespace parl::conformance {

PARL_CONFORMANCE(Futures, "inline", "thread", "process", "tcp");
PARL_CONFORMANCE(Concurrent, "thread", "process", "tcp");  // needs a caller that goes on

TEST_P(Futures, GetGivesTheValueOnce) {  // F1, F2
  RemoteManager manager(options());
  auto counter = manager.create<Counter>(4);
  auto later = counter.async()->sum(2, 3);
  EXPECT_TRUE(later.valid());
  EXPECT_EQ(later.get(), 5);
  EXPECT_FALSE(later.valid());
  EXPECT_THROW(later.get(), Error);
  EXPECT_THROW(later.ready(), Error);
}

TEST_P(Futures, FutureCarriesTheError) {  // F6
  RemoteManager manager(options_with_slots(1));
  {
    auto trouble = manager.create<Trouble>();
    auto later = trouble.async()->throw_runtime("late");
    const auto error = expect_remote_error(RemoteErrorKind::kThrew, [&] { later.get(); });
    EXPECT_EQ(error.message(), "late");
  }
  EXPECT_EQ(manager.create<Trouble>()->fine(), 1);
}

TEST_P(Futures, FutureGetters) {  // F8
  RemoteManager manager(options());
  auto values = manager.create<Values>();
  EXPECT_EQ(values.async()->integer().get(), -7);
  EXPECT_EQ(values.async()->real().get(), 0.1f);
  EXPECT_EQ(values.async()->matrix().get(), Values().matrix());
}

TEST_P(Futures, FutureOutlivesTheHandle) {  // P4, P5: accepted calls still run
  RemoteManager manager(options());
  Future<std::vector<int>> log;
  {
    auto counter = manager.create<Counter>();
    for (int i = 0; i < 100; ++i) counter.async()->append(i);
    log = counter.async()->log();
  }
  EXPECT_EQ(log.get().size(), 100u);
}

TEST_P(Futures, AnErrorThatNobodyFetchedIsLoggedOnce) {
  const Gate file;
  log_to_file(file.path());
  {
    RemoteManager manager(options());
    auto trouble = manager.create<Trouble>();
    { auto dropped = trouble.async()->throw_runtime("unseen"); }
    auto fetched = trouble.async()->throw_runtime("seen");
    expect_remote_error(RemoteErrorKind::kThrew, [&] { fetched.get(); });
    trouble->fine();
  }
  stop_log_file();
  std::ifstream log(file.path());
  const std::string text((std::istreambuf_iterator<char>(log)), std::istreambuf_iterator<char>());
  const size_t first = text.find("nobody fetched");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("nobody fetched", first + 1), std::string::npos) << text;
  EXPECT_NE(text.find("unseen"), std::string::npos) << text;
}

TEST_P(Futures, WaitAll) {
  RemoteManager manager(options());
  auto counters = manager.create_all<Counter>(4, 1);
  std::vector<Future<int>> results;
  for (auto& counter : counters) results.push_back(counter.async()->increment());
  wait_all(results);
  for (auto& result : results) {
    EXPECT_TRUE(result.ready());
    EXPECT_EQ(result.get(), 2);
  }
  auto x = counters[0].async()->get();
  auto y = counters[1].async()->log();
  wait_all(x, y);
  EXPECT_TRUE(x.ready() && y.ready());
}

TEST_P(Futures, Pipelining) {  // 7: many calls in flight on one object
  RemoteManager manager(options());
  auto counter = manager.create<Counter>();
  std::vector<Future<int>> in_flight;
  for (int i = 0; i < 1000; ++i) in_flight.push_back(counter.async()->add_one(i));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(in_flight[static_cast<size_t>(i)].get(), i + 1);
}

TEST_P(Concurrent, NotReadyThenReady) {  // F3, F4, F5
  RemoteManager manager(options());
  auto trouble = manager.create<Trouble>();
  Gate arrived, go;
  auto later = trouble.async()->hold(arrived.path(), go.path());
  EXPECT_FALSE(later.ready());
  EXPECT_FALSE(later.wait_for(0ms));
  expect_remote_error(RemoteErrorKind::kTimeout, [&] { later.get(0ms); });
  expect_remote_error(RemoteErrorKind::kTimeout, [&] { later.get(30ms); });
  go.open();
  EXPECT_TRUE(later.get(20s));  // the expired get did not consume it
}

TEST_P(Concurrent, DroppingNeitherBlocksNorCancels) {
  RemoteManager manager(options());
  auto trouble = manager.create<Trouble>();
  Gate arrived, go, second;
  EXPECT_LT(seconds_of([&] { trouble.async()->hold(arrived.path(), go.path()); }), 1.0);
  { auto dropped = trouble.async()->hold(second.path(), go.path()); }
  go.open();
  EXPECT_EQ(trouble->fine(), 1);
  EXPECT_TRUE(second.is_open());
}

TEST_P(Concurrent, WaitAnyFindsTheFirst) {
  RemoteManager manager(options());
  auto objects = manager.create_all<Trouble>(3);
  Gate arrived[3], go[3];
  std::vector<Future<bool>> all;
  for (size_t i = 0; i < 3; ++i) all.push_back(objects[i].async()->hold(arrived[i].path(), go[i].path()));
  EXPECT_EQ(wait_any(all, 20ms), std::nullopt);
  for (const size_t i : {1u, 2u, 0u}) {
    go[i].open();
    EXPECT_EQ(wait_any(all), i);
    EXPECT_TRUE(all[i].get());
  }
  EXPECT_THROW(wait_any(all), Error);
}

TEST_P(Concurrent, CancelBeforeItBegins) {
  RemoteManager manager(options());
  auto trouble = manager.create<Trouble>();
  Gate arrived, go, never;
  auto running = trouble.async()->hold(arrived.path(), go.path());
  ASSERT_TRUE(Gate::wait(arrived.path()));
  auto waiting = trouble.async()->hold(never.path(), go.path());
  EXPECT_TRUE(waiting.cancel());
  expect_remote_error(RemoteErrorKind::kCancelled, [&] { waiting.get(); });
  go.open();
  EXPECT_TRUE(running.get());
  EXPECT_EQ(trouble->fine(), 1);
  EXPECT_FALSE(never.is_open());  // it did not run
}

TEST_P(Concurrent, CancelWhileItRuns) {
  RemoteManager manager(options());
  auto trouble = manager.create<Trouble>();
  Gate arrived, go;
  auto running = trouble.async()->hold(arrived.path(), go.path());
  ASSERT_TRUE(Gate::wait(arrived.path()));
  EXPECT_TRUE(running.cancel());  // stop_requested() ends it
  expect_remote_error(RemoteErrorKind::kCancelled, [&] { running.get(); });
  EXPECT_EQ(trouble.within(20s)->fine(), 1);
  EXPECT_TRUE(eventually([&] { return manager.stats().late_results == 1; }));
  auto done = trouble.async()->fine();
  done.wait();
  EXPECT_FALSE(done.cancel());
  EXPECT_EQ(done.get(), 1);
}

TEST_P(Concurrent, WithinGivesUp) {  // P8
  RemoteManager manager(options());
  auto trouble = manager.create<Trouble>();
  const double took = seconds_of([&] {
    const auto error = expect_remote_error(RemoteErrorKind::kTimeout, [&] { trouble.within(50ms)->sleep_ms(300); });
    EXPECT_EQ(error.method(), "sleep_ms");
  });
  EXPECT_GE(took, 0.05);
  EXPECT_LT(took, 0.28);
  EXPECT_EQ(trouble->fine(), 1);
  EXPECT_TRUE(eventually([&] { return manager.stats().late_results == 1; }));
}

TEST_P(Concurrent, WithinEndsAMethodThatPolls) {
  RemoteManager manager(options());
  auto trouble = manager.create<Trouble>();
  Gate arrived, go;
  expect_remote_error(RemoteErrorKind::kTimeout, [&] { trouble.within(100ms)->hold(arrived.path(), go.path()); });
  EXPECT_EQ(trouble.within(10s)->fine(), 1);  // it has come back though nobody opened the gate
}

TEST_P(Concurrent, BackPressureByCount) {  // P6
  Options o = options();
  o.max_calls = 4;
  RemoteManager manager(o);
  auto trouble = manager.create<Trouble>();
  Gate arrived, go;
  auto held = trouble.async()->hold(arrived.path(), go.path());
  ASSERT_TRUE(Gate::wait(arrived.path()));
  std::vector<Future<int>> taken;
  while (auto one = trouble.try_async()->fine()) {
    taken.push_back(std::move(*one));
    ASSERT_LE(taken.size(), 4u);
  }
  EXPECT_GE(taken.size(), 3u);  // whether the running call counts is the engine's own affair
  std::atomic<bool> went_on{false};
  std::thread waiting([&] {
    trouble.async()->fine().get();  // waits for room
    went_on = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(went_on);
  go.open();
  waiting.join();
  EXPECT_TRUE(held.get());
  for (auto& f : taken) EXPECT_EQ(f.get(), 1);
}

TEST_P(Concurrent, BackPressureByBytes) {
  Options o = options();
  o.max_bytes = 1 << 20;
  RemoteManager manager(o);
  auto values = manager.create<Values>();
  EXPECT_EQ(values->bytes_of(Array::of<uint8_t>({3 << 20})), 3 << 20);  // one alone is taken
  auto trouble = manager.create<Trouble>();
  Gate arrived, go;
  auto held = trouble.async()->hold(arrived.path(), go.path());
  ASSERT_TRUE(Gate::wait(arrived.path()));
  int taken = 0;
  const std::string half(600000, 'x');
  while (trouble.try_async()->environment(half)) ASSERT_LE(++taken, 2);
  EXPECT_GE(taken, 1);
  go.open();
  EXPECT_TRUE(held.get());
}

TEST_P(Concurrent, CallsFromManyThreadsUnderPressure) {
  Options o = options();
  o.max_calls = 3;
  RemoteManager manager(o);
  auto counter = manager.create<Counter>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<Future<int>> mine;
      for (int i = 0; i < 200; ++i) mine.push_back(counter.async()->increment());
      for (auto& f : mine) f.get();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter->get(), 800);
}

}  // namespace parl::conformance
