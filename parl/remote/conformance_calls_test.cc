// Calls, values, order, handles. The table of the suite is in conformance.h.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "parl/remote/conformance.h"

namespace parl::conformance {

using ::testing::HasSubstr;

PARL_CONFORMANCE(Calls, "inline", "thread", "process", "tcp");

TEST_P(Calls, LocalUse) {  // D1
  Counter local(3);
  local.set(4);
  EXPECT_EQ(local.get(), 4);
  EXPECT_EQ(std::make_unique<Counter>(1)->sum(2, 3), 5);
}

TEST_P(Calls, GettersAndSetters) {  // R1
  RemoteManager manager(options());
  auto counter = manager.create<Counter>(3);
  EXPECT_EQ(counter->get(), 3);
  counter->set(9);
  EXPECT_EQ(counter->get(), 9);
  EXPECT_EQ(counter->sum(2, 3), 5);
  EXPECT_EQ(counter.within(5s)->get(), 9);
  EXPECT_EQ(counter.async()->get().get(), 9);
  EXPECT_EQ(counter.try_async()->get()->get(), 9);
}

TEST_P(Calls, ManyObjects) {  // R7, C3
  RemoteManager manager(options_with_slots(8));
  auto all = manager.create_all<Counter>(8, 5);
  for (int i = 0; i < 8; ++i) {
    all[static_cast<size_t>(i)]->set(i);
    EXPECT_EQ(all[static_cast<size_t>(i)].index(), i);
  }
  for (int i = 0; i < 8; ++i) EXPECT_EQ(all[static_cast<size_t>(i)]->get(), i);
  EXPECT_EQ(manager.slots().used, 8);
}

TEST_P(Calls, ManyObjectsWithArgumentsOfTheirOwn) {
  RemoteManager manager(options());
  auto all = manager.create_each<Counter>(10, [](int i) { return 100 + i; });
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(all[static_cast<size_t>(i)]->get(), 100 + i);
    EXPECT_EQ(all[static_cast<size_t>(i)].index(), i);
  }
}

TEST_P(Calls, OneThreadForConstructorAndMethods) {
  RemoteManager manager(options());
  auto counter = manager.create<Counter>();
  const int64_t birth = counter->birth_thread();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(counter->thread(), birth);
  if (engine() != "inline") {
    EXPECT_NE(birth, gettid());
  }
  EXPECT_EQ(counter->process() == getpid(), !is_elsewhere());
  EXPECT_EQ(counter.pid(), counter->process());
}

TEST_P(Calls, TenThreadsTenObjects) {  // R12
  RemoteManager manager(options());
  auto objects = manager.create_all<Counter>(10);
  std::vector<std::thread> threads;
  std::atomic<int> exact{0};
  for (auto& object : objects) {
    threads.emplace_back([&] {
      int value = 0;
      for (int i = 0; i < 1000; ++i) value = object->add_one(value);
      exact += value == 1000;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(exact, 10);
}

TEST_P(Calls, OrderAndExclusion) {  // P1
  RemoteManager manager(options());
  auto counter = manager.create<Counter>();
  std::vector<Future<void>> appended;
  for (int i = 0; i < 2000; ++i) appended.push_back(counter.async()->append(i));
  wait_all(appended);
  std::vector<int> expected(2000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(counter->log(), expected);
  std::vector<std::thread> threads;  // one at a time: no increment is lost, though nobody locks
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) counter->increment();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter->get(), 2000);
}

TEST_P(Calls, ObjectsRunInParallel) {  // P1: each waits for the other
  if (is_inline()) GTEST_SKIP() << "one thread";
  RemoteManager manager(options());
  auto a = manager.create<Trouble>();
  auto b = manager.create<Trouble>();
  Gate first, second;
  auto x = a.async()->hold(first.path(), second.path());
  auto y = b.async()->hold(second.path(), first.path());
  EXPECT_TRUE(x.get());
  EXPECT_TRUE(y.get());
}

TEST_P(Calls, ValuesAreExact) {  // C19, 12
  RemoteManager manager(options());
  auto values = manager.create<Values>();
  EXPECT_EQ(values->integer(), -7);
  EXPECT_EQ(values->real(), 0.1f);
  EXPECT_EQ(values->matrix(), Values().matrix());
  EXPECT_TRUE(std::isnan(values->echo_double(std::nan(""))));
  EXPECT_EQ(values->echo_double(-std::numeric_limits<double>::infinity()), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(values->echo_array(Array::of<int64_t>({})).shape(), Shape{});
  EXPECT_EQ(values->echo_array(Array::of<uint8_t>({4, 0})).shape(), (Shape{4, 0}));
  EXPECT_TRUE(values->echo_vector({}).empty());
  for (const int64_t n : {10, 20000, 2000000}) {  // inline, attachment, several slots
    Array a = Array::empty(DType::kF64, {n});
    std::iota(a.span<double>().begin(), a.span<double>().end(), 0.25);
    EXPECT_EQ(values->echo_array(a), a);
    std::vector<float> v(static_cast<size_t>(n));
    std::iota(v.begin(), v.end(), 0.5f);
    EXPECT_EQ(values->echo_vector(v), v);
  }
}

TEST_P(Calls, UserClassesTravel) {  // R11
  RemoteManager manager(options());
  auto values = manager.create<Values>();
  const Item item{3, {"a", ""}};
  EXPECT_EQ(values->echo_item(item), item);
  const std::map<std::string, std::optional<Item>> map{{"x", item}, {"y", std::nullopt}};
  EXPECT_EQ(values->echo_map(map), map);
  EXPECT_EQ(*values->echo_pointer(std::make_unique<Item>(item)), item);
  EXPECT_EQ(values->echo_pointer(nullptr), nullptr);
}

TEST_P(Calls, OverwrittenArray) {  // P3: overwritten right after async(), the object sees the old values
  RemoteManager manager(options());
  auto values = manager.create<Values>();
  auto busy = manager.create<Trouble>();
  for (const int64_t n : {8, 100000}) {
    Array a = Array::of<double>({n});
    std::fill_n(a.data<double>(), n, 1.0);
    auto kept = values.async()->keep(a);
    std::fill_n(a.data<double>(), n, 2.0);
    kept.get();
    EXPECT_EQ(values->sum_kept(), static_cast<double>(n));
    std::vector<float> v(static_cast<size_t>(n), 1.0f);
    auto kept_vector = values.async()->keep_vector(v);
    std::fill(v.begin(), v.end(), 2.0f);
    kept_vector.get();
    EXPECT_EQ(values->kept_vector(), std::vector<float>(static_cast<size_t>(n), 1.0f));
  }
}

TEST_P(Calls, CallerAndObjectShareNoMemory) {  // P3, the other way: what came back is the caller's own
  RemoteManager manager(options());
  auto values = manager.create<Values>();
  for (const int64_t n : {8, 100000}) {
    values->keep(Array::of<double>({n}));
    Array mine = values->kept();
    mine.data<double>()[0] = 5;
    EXPECT_EQ(values->first_kept(), 0);
    values->poke(7);
    EXPECT_EQ(mine.data<double>()[0], 5);
  }
}

TEST_P(Calls, RvaluesAreMoved) {
  if (is_elsewhere()) GTEST_SKIP() << "another address space";
  RemoteManager manager(options());
  auto values = manager.create<Values>();
  Array a = Array::of<double>({100000});
  const std::byte* where = a.data();
  Array back = values->echo_array(std::move(a));
  EXPECT_EQ(back.data(), where);
}

TEST_P(Calls, HugeArray) {
  if (!std::getenv("PARL_TEST_HUGE")) GTEST_SKIP() << "set PARL_TEST_HUGE: it needs about 14 GB";
  RemoteManager manager(options());
  auto values = manager.create<Values>();
  const int64_t bytes = (int64_t{4} << 30) + 4096;
  Array a = Array::empty(DType::kU8, {bytes});
  EXPECT_EQ(values->bytes_of(std::move(a)), bytes);
}

TEST_P(Calls, SharedHandle) {  // P5
  RemoteManager manager(options());
  auto shared = std::make_shared<Remote<Counter>>(manager.create<Counter>());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([shared] {
      for (int i = 0; i < 100; ++i) (*shared)->increment();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ((*shared)->get(), 400);
  Remote<Counter> moved = std::move(*shared);
  EXPECT_EQ(moved->get(), 400);
  expect_remote_error(RemoteErrorKind::kClosed, [&] { (*shared)->get(); });
}

TEST_P(Calls, Broadcast) {  // P11
  RemoteManager manager(options());
  auto objects = manager.create_all<Values>(3);
  Array a = Array::of<double>({50000});
  std::fill_n(a.data<double>(), a.size(), 1.0);
  auto done = broadcast(objects, &Values::keep, a);
  std::fill_n(a.data<double>(), a.size(), 9.0);
  ASSERT_EQ(done.size(), 3u);
  for (auto& f : done) f.get();
  objects[0]->poke(5);  // nobody shares
  EXPECT_EQ(objects[1]->sum_kept(), 50000);
  EXPECT_EQ(objects[2]->first_kept(), 1);
  objects[1].close();
  auto sums = broadcast(objects, &Values::sum_kept);
  EXPECT_EQ(sums[0].get(), 50004);
  expect_remote_error(RemoteErrorKind::kClosed, [&] { sums[1].get(); });
  EXPECT_EQ(sums[2].get(), 50000);
}

TEST_P(Calls, VersionedTravelsOnce) {  // P11, 13
  RemoteManager manager(options());
  auto values = manager.create<Values>();
  auto make = [](int64_t version, double x) {
    Array a = Array::of<double>({30000});
    std::fill_n(a.data<double>(), a.size(), x);
    return Versioned<Array>(version, std::move(a));
  };
  const auto one = make(1, 1.0);
  const auto two = make(2, 2.0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(values->versioned_sum(one), 30000);
    EXPECT_EQ(values->version_of(two), 2);
    EXPECT_EQ(values->versioned_sum(two), 60000);
  }
  if (is_elsewhere()) {
    EXPECT_EQ(manager.stats().values_skipped, 13u);  // 15 calls, two values
  }
  const auto all = broadcast(std::vector<Remote<Values>*>{&values}, &Values::versioned_sum, one);
  EXPECT_EQ(const_cast<Future<double>&>(all[0]).get(), 30000);
  expect_remote_error(RemoteErrorKind::kThrew, [&] { values->versioned_sum(Versioned<Array>()); });
}

// The worker's connection counts what it costs: 16 objects of one worker process, one value of 240 kB.
TEST_P(Calls, VersionedTravelsOncePerWorkerProcess) {  // P11
  if (!is_tcp()) GTEST_SKIP() << "objects do not share a process, or share everything";
  RemoteManager manager(options());
  auto objects = manager.create_all<Values>(16);
  const auto bytes_sent = [&] {
    const ManagerStatus status = manager.status();
    EXPECT_EQ(status.list.size(), 1u);
    return status.list.empty() ? 0 : status.list[0].bytes_sent;
  };
  const uint64_t before = bytes_sent();
  for (int64_t version = 1; version <= 3; ++version) {
    Array a = Array::of<double>({30000});
    std::fill_n(a.data<double>(), a.size(), static_cast<double>(version));
    const Versioned<Array> value(version, std::move(a));
    for (auto& sum : broadcast(objects, &Values::versioned_sum, value))
      EXPECT_EQ(sum.get(), 30000.0 * static_cast<double>(version));
    EXPECT_EQ(objects[3]->version_of(value), version);
  }
  EXPECT_EQ(manager.stats().values_skipped, 3u * 16);
  constexpr uint64_t kValues = 3 * 240000, kSmall = 20000;
  EXPECT_GE(bytes_sent() - before, kValues);
  EXPECT_LE(bytes_sent() - before, kValues + kSmall);
  // A second manager's worker knows nothing of the first one's.
  RemoteManager other(options());
  EXPECT_EQ(other.create<Values>()->versioned_sum(Versioned<Array>(1, Array::of<double>({30000}))), 0);
  EXPECT_EQ(other.stats().values_skipped, 0u);
}

TEST_P(Calls, VersionedAsAConstructorsArgument) {
  RemoteManager manager(options());
  const Versioned<std::string> words(4, "from the constructor");
  auto keeper = manager.create<VersionKeeper>(words);
  EXPECT_EQ(keeper->text(), "4: from the constructor");
  keeper->keep(words);
  EXPECT_EQ(keeper->text(), "4: from the constructor");
  keeper->keep(Versioned<std::string>(5, "from a call"));
  EXPECT_EQ(keeper->text(), "5: from a call");
  keeper->keep(words);
  EXPECT_EQ(keeper->text(), "4: from the constructor");
}

TEST_P(Calls, ManagersSideBySide) {  // P13
  RemoteManager one(options());
  auto a = one.create<Counter>(1);
  {
    RemoteManager two(options());
    auto b = two.create<Counter>(2);
    EXPECT_EQ(b->get(), 2);
  }
  EXPECT_EQ(a->get(), 1);
}

TEST_P(Calls, ForkedChild) {  // P5: handles do nothing in a child
  RemoteManager manager(options());
  auto counter = manager.create<Counter>(5);
  const pid_t child = fork();
  if (child == 0) {
    int status = 0;
    try {
      counter->get();
      status = 1;
    } catch (const RemoteError& e) {
      status = e.kind() == RemoteErrorKind::kClosed ? 0 : 2;
    }
    { Remote<Counter> gone = std::move(counter); }
    _exit(status);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(counter->get(), 5);
}

TEST_P(Calls, PlacementTellsTheObject) {
  const internal::TestVariable gpus("CUDA_VISIBLE_DEVICES", "0,1,2,3");
  RemoteManager manager(options());
  auto left = manager.create<Trouble>(Place{.name = "left", .gpus = {3, 1}});
  auto right = manager.create<Trouble>();
  const Placement p = left->where();
  EXPECT_EQ(p.index, 0);
  EXPECT_EQ(p.name, "left");
  EXPECT_EQ(p.engine, manager.engine());
  EXPECT_EQ(p.gpus, (std::vector<int>{3, 1}));
  EXPECT_EQ(p.devices, is_process() ? (std::vector<int>{0, 1}) : (std::vector<int>{3, 1}));
  EXPECT_EQ(access(p.directory.c_str(), W_OK), 0) << p.directory;
  EXPECT_EQ(right->where().name, "Trouble#1");
  EXPECT_NE(right->where().directory, p.directory);
  if (is_process()) {
    EXPECT_EQ(left->environment("CUDA_VISIBLE_DEVICES"), "3,1");
  }
  EXPECT_THROW(placement(), Error);
}

TEST_P(Calls, GpusAreHandedOutOnce) {
  const internal::TestVariable gpus("CUDA_VISIBLE_DEVICES", "4,6,7");
  RemoteManager manager(options());
  const auto refused = [&](Place place) {
    place.timeout = 50ms;
    return expect_remote_error(RemoteErrorKind::kRefused, [&] { manager.create<Trouble>(place); }).message();
  };
  auto six = manager.create<Trouble>(Place{.gpus = {6}});
  auto any = manager.create<Trouble>(Place{.gpu_count = 1});
  auto none = manager.create<Trouble>();
  EXPECT_EQ(six->where().gpus, std::vector<int>{6});
  EXPECT_EQ(six->where().devices, std::vector<int>{is_process() ? 0 : 1});
  EXPECT_EQ(any->where().gpus, std::vector<int>{4});
  EXPECT_TRUE(none->where().gpus.empty());
  EXPECT_THAT(refused({.gpu_count = 2}), HasSubstr("GPUs 4, 6, 7, of which 4, 6 are in use"));
  EXPECT_THAT(refused({.gpus = {6}}), HasSubstr("GPU 6 asked for"));
  EXPECT_THAT(refused({.gpus = {5}}), HasSubstr("GPU 5 asked for"));
  EXPECT_THAT(refused({.gpus = {4}, .share_gpus = true}), HasSubstr("are in use")) << "both must want to share";
  six.close();
  auto two = manager.create<Trouble>(Place{.gpu_count = 2});  // what was given back
  EXPECT_EQ(two->where().gpus, (std::vector<int>{6, 7}));
  two.close();
  auto left = manager.create<Trouble>(Place{.gpus = {7}, .share_gpus = true});
  auto right = manager.create<Trouble>(Place{.gpus = {7}, .share_gpus = true});
  auto other = manager.create<Trouble>(Place{.gpu_count = 1, .share_gpus = true});
  EXPECT_EQ(right->where().gpus, left->where().gpus);
  EXPECT_EQ(other->where().gpus, std::vector<int>{6}) << "the one with the fewest users";
  EXPECT_THROW(manager.create<Trouble>(Place{.gpus = {7, 7}}), Error);
  EXPECT_THROW(manager.create<Trouble>(Place{.gpus = {7}, .gpu_count = 2}), Error);
}

TEST_P(Calls, CoresAreTaken) {
  if (is_inline()) GTEST_SKIP() << "the caller's thread stays where it is";
  RemoteManager manager(options());
  auto pinned = manager.create<Counter>(Place{.cores = {0}});
  EXPECT_EQ(pinned->sum(1, 2), 3);
  const auto error =
      expect_remote_error(RemoteErrorKind::kThrew, [&] { manager.create<Counter>(Place{.cores = {1000}}); });
  EXPECT_NE(std::string(error.what()).find("1000"), std::string::npos);
}

}  // namespace parl::conformance
