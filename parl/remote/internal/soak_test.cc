// A soak: callers work on objects whose processes are killed at random. No call is lost (each ends in its value or an
// error), nothing hangs, and nothing is left behind: memory, descriptors, threads, processes.
//
// In the suite for some seconds; for longer, with the figures of each round:
//   PARL_SOAK_SECONDS=600 build/rooms/remote/parl_remote_endurance_test --gtest_filter='*Soak*'
#include <signal.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "parl/core/log.h"
#include "parl/remote/internal/tcp_test.h"
#include "parl/remote/internal/test_process.h"

namespace parl::internal {
namespace {

constexpr int kCallers = 4;
constexpr int kWorkers = 3;  // tcp; each has a slot for every caller
constexpr int kRounds = 10;
constexpr auto kPatience = 60s;  // a call that takes longer hangs

double soak_seconds() {
  const char* text = std::getenv("PARL_SOAK_SECONDS");
  return text ? std::atof(text) : 5;
}

struct Tally {
  std::atomic<uint64_t> calls{0}, values{0}, threw{0}, lost{0}, timeouts{0}, cancelled{0}, other{0}, wrong{0}, hung{0},
      objects{0}, refused{0}, kills{0};
  uint64_t ended() const { return values + threw + lost + timeouts + cancelled + other; }
  void note(const RemoteError& error) {
    switch (error.kind()) {
      case RemoteErrorKind::kThrew:
        ++threw;
        break;
      case RemoteErrorKind::kLost:
        ++lost;
        break;
      case RemoteErrorKind::kTimeout:
        ++timeouts;
        break;
      case RemoteErrorKind::kCancelled:
        ++cancelled;
        break;
      default:
        ++other;
    }
  }
};

// The processes that objects live in; those that were killed are not in it any more, so nobody is killed twice (its
// number may be a stranger's by then).
class Targets {
 public:
  void add(int64_t pid) {
    std::lock_guard lock(mutex_);
    pids_.insert(pid);
  }
  // Before its object may go in peace.
  void remove(int64_t pid) {
    std::lock_guard lock(mutex_);
    pids_.erase(pid);
  }
  bool kill_one(std::mt19937& random) {
    std::lock_guard lock(mutex_);
    if (pids_.empty()) return false;
    const auto victim = std::next(pids_.begin(), static_cast<std::ptrdiff_t>(random() % pids_.size()));
    ::kill(static_cast<pid_t>(*victim), SIGKILL);
    pids_.erase(victim);
    return true;
  }

 private:
  std::mutex mutex_;
  std::set<int64_t> pids_;
};

// Counts how a call ends. `is_right` judges its value.
template <typename R, typename F>
void settle(Tally& tally, Future<R>& future, F&& is_right) {
  if (!future.wait_for(kPatience)) {
    ++tally.hung;
    return;
  }
  try {
    if constexpr (std::is_void_v<R>) {
      future.get();
      if (!is_right()) ++tally.wrong;
    } else {
      if (!is_right(future.get())) ++tally.wrong;
    }
    ++tally.values;
  } catch (const RemoteError& error) {
    tally.note(error);
  }
}

// One caller: an object after the other, each for a while.
class Caller {
 public:
  Caller(RemoteManager& manager, Tally& tally, Targets* targets, unsigned seed)
      : manager_(manager), tally_(tally), targets_(targets), random_(seed) {}

  void work(const std::atomic<bool>& stop) {
    while (!stop) {
      try {
        auto values = manager_.create<Values>(Place{.timeout = 30s});
        ++tally_.objects;
        serve(values, stop);
      } catch (const RemoteError&) {  // its process was killed in the beginning, or no worker is there
        ++tally_.refused;
      }
    }
  }

 private:
  void serve(Remote<Values>& values, const std::atomic<bool>& stop) {
    const int64_t pid = values.pid();
    if (targets_) targets_->add(pid);
    const int batches = 1 + static_cast<int>(random_() % 200);
    for (int i = 0; i < batches && !stop && !values.lost(); ++i) batch(values);
    if (targets_) targets_->remove(pid);
  }

  void batch(Remote<Values>& values) {
    std::vector<std::pair<double, Future<double>>> small;
    std::vector<std::pair<Array, Future<Array>>> large;
    for (int i = static_cast<int>(random_() % 16); i >= 0; --i) {
      const double x = random_();
      small.emplace_back(x, values.async()->echo_double(x));
      ++tally_.calls;
    }
    if (random_() % 4 == 0) {
      Array array(DType::kU8, {static_cast<int64_t>(1 + random_() % 300000)});
      array.data<uint8_t>()[array.size() / 2] = static_cast<uint8_t>(random_());
      large.emplace_back(array, values.async()->echo_array(array));
      ++tally_.calls;
    }
    auto error = values.async()->poke(1);  // throws: there is no array
    ++tally_.calls;
    if (random_() % 8 == 0) small.front().second.cancel();
    for (auto& [sent, future] : small) settle(tally_, future, [x = sent](double got) { return got == x; });
    for (auto& [sent, future] : large) settle(tally_, future, [&a = sent](const Array& got) { return got == a; });
    settle(tally_, error, [] { return false; });
    ++tally_.calls;
    try {
      if (values.within(std::chrono::microseconds(random_() % 2000))->integer() != -7) ++tally_.wrong;
      ++tally_.values;
    } catch (const RemoteError& late) {
      tally_.note(late);
    }
  }

  RemoteManager& manager_;
  Tally& tally_;
  Targets* const targets_;
  std::mt19937 random_;
};

// Callers work while `disturb` is called every now and then.
void run_round(RemoteManager& manager, Tally& tally, Targets* targets, double seconds, unsigned seed,
               const std::function<void(std::mt19937&)>& disturb) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kCallers; ++i)
    threads.emplace_back([&, i] { Caller(manager, tally, targets, seed * 100 + static_cast<unsigned>(i)).work(stop); });
  std::mt19937 random(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 200));
    disturb(random);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
}

void report(const char* engine, int round, const Holdings& held, const Tally& t) {
  std::printf(
      "%s round %d: %.1f MB, %zu descriptors, %zu threads; %lu objects, %lu refused, %lu kills; %lu calls: %lu values, "
      "%lu threw, %lu lost, %lu timeouts, %lu cancelled, %lu other, %lu wrong, %lu hung\n",
      engine, round, held.megabytes, held.descriptors, held.threads, t.objects.load(), t.refused.load(), t.kills.load(),
      t.calls.load(), t.values.load(), t.threw.load(), t.lost.load(), t.timeouts.load(), t.cancelled.load(),
      t.other.load(), t.wrong.load(), t.hung.load());
  std::fflush(stdout);
}

class Soak : public ::testing::Test {
 protected:
  void SetUp() override { log().set_level(spdlog::level::off); }
  void TearDown() override { log().set_level(level_); }

  // The first round warms up; what the second leaves, the last must not exceed.
  void soak(const char* engine, RemoteManager& manager, Targets* targets, size_t children_at_rest,
            const std::function<void(std::mt19937&)>& disturb, const std::function<void()>& settle_down) {
    Holdings second, last;
    for (int round = 0; round < kRounds; ++round) {
      run_round(manager, tally_, targets, soak_seconds() / kRounds, static_cast<unsigned>(round), disturb);
      settle_down();
      ASSERT_TRUE(eventually([&] { return manager.slots().used == 0; }, 20s)) << "objects are left";
      ASSERT_TRUE(eventually([&] { return holdings().children == children_at_rest; }, 20s)) << "processes are left";
      last = holdings();
      report(engine, round, last, tally_);
      if (round == 1) second = last;
      ASSERT_EQ(tally_.hung, 0u);
    }
    EXPECT_EQ(tally_.calls, tally_.ended()) << "a call was lost";
    EXPECT_EQ(tally_.wrong, 0u);
    EXPECT_EQ(tally_.other, 0u);
    EXPECT_GT(tally_.values, 0u);
    EXPECT_GT(tally_.threw, 0u);
    EXPECT_LE(last.descriptors, second.descriptors + 4) << "descriptors leak";
    EXPECT_LE(last.threads, second.threads) << "threads leak";
    if (!kSanitizer) {
      EXPECT_LE(last.megabytes, second.megabytes + 64) << "memory leaks";
    }
  }

  Tally tally_;

 private:
  const spdlog::level::level_enum level_ = log().level();
};

TEST_F(Soak, ProcessesThatAreKilled) {
  Options options;
  options.engine = "process";
  RemoteManager manager(options);
  Targets targets;
  soak(
      "process", manager, &targets, 0,
      [&](std::mt19937& random) {
        if (targets.kill_one(random)) ++tally_.kills;
      },
      [] {});
  EXPECT_GT(tally_.kills, 0u);
}

TEST_F(Soak, WorkersThatAreKilledAndStopped) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  std::array<std::unique_ptr<TestWorker>, kWorkers> workers;
  std::array<std::chrono::steady_clock::time_point, kWorkers> stopped{};
  for (auto& worker : workers) worker = std::make_unique<TestWorker>(manager.engine(), kCallers);
  const auto replace = [&](std::unique_ptr<TestWorker>& worker) {
    worker.reset();
    worker = std::make_unique<TestWorker>(manager.engine(), kCallers);
  };
  // A worker that stands still is lost after the heartbeat's timeout, or goes on before it.
  const auto disturb = [&](std::mt19937& random) {
    const auto now = std::chrono::steady_clock::now();
    for (size_t i = 0; i < workers.size(); ++i) {
      workers[i]->output();  // empties the pipe
      if (stopped[i] == std::chrono::steady_clock::time_point{} || now < stopped[i]) continue;
      workers[i]->signal(SIGCONT);
      stopped[i] = {};
    }
    const size_t i = random() % workers.size();
    if (stopped[i] != std::chrono::steady_clock::time_point{}) return;
    ++tally_.kills;
    if (random() % 3 == 0) {
      workers[i]->signal(SIGSTOP);
      stopped[i] = now + std::chrono::milliseconds(random() % 2500);
    } else {
      replace(workers[i]);
    }
  };
  const auto settle_down = [&] {
    for (size_t i = 0; i < workers.size(); ++i) {
      workers[i]->signal(SIGCONT);
      stopped[i] = {};
    }
    for (auto& worker : workers) replace(worker);
    EXPECT_TRUE(eventually([&] { return manager.slots().total == kWorkers * kCallers; }, 30s)) << "workers are missing";
  };
  soak("tcp", manager, nullptr, kWorkers, disturb, settle_down);
  EXPECT_GT(tally_.lost, 0u);
}

}  // namespace
}  // namespace parl::internal
