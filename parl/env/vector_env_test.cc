#include "parl/env/vector_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "parl/core/clock.h"
#include "parl/core/rng.h"
#include "parl/env/allocation_counter.h"
#include "parl/env/dummy_env.h"
#include "parl/env/match_env.h"
#include "parl/env/registry.h"
#include "parl/env/wrappers.h"

namespace parl {
namespace {

VectorEnv::Factory cartpole(int64_t limit = 20) {
  return [limit](int) {
    EnvRegistry registry;
    register_builtin_envs(registry);
    return registry.make({"CartPole-v1", {{"max_episode_steps", std::to_string(limit)}}, EnvMode::kTraining});
  };
}

// Steps a vector with actions that depend on the global index alone, and keeps all that it gives.
class Runner {
 public:
  Runner(VectorEnv::Options options, const VectorEnv::Factory& factory)
      : vector_(options, factory),
        bytes_(vector_.spec().observation.bytes()),
        obs_(bytes_ * static_cast<size_t>(options.count)),
        results_(static_cast<size_t>(options.count)) {
    for (int i = 0; i < options.count; ++i) samplers_.emplace_back(99, static_cast<uint64_t>(options.first_index + i));
    vector_.reset(place());
  }

  // Per environment: all bytes of observations, final observations, rewards and flags.
  std::vector<std::vector<std::byte>> run(int steps) {
    std::vector<std::vector<std::byte>> log(results_.size());
    for (int t = 0; t < steps; ++t) {
      draw();
      vector_.step(actions_, {}, place(), results_);
      for (size_t i = 0; i < log.size(); ++i) {
        append(log[i], std::span<const std::byte>(obs_).subspan(i * bytes_, bytes_));
        append(log[i], vector_.final_observation(static_cast<int>(i)));
        append(log[i], std::as_bytes(std::span(&results_[i].reward, 1)));
        log[i].push_back(static_cast<std::byte>(results_[i].terminated + 2 * results_[i].truncated));
      }
    }
    return log;
  }
  void draw() {
    actions_.clear();
    for (CounterRng& sampler : samplers_) actions_.push_back(sampler.below(2));
  }
  VectorEnv::ObsPlace place() {
    return [this](int i) { return std::span(obs_).subspan(static_cast<size_t>(i) * bytes_, bytes_); };
  }
  VectorEnv& vector() { return vector_; }
  std::span<const int64_t> actions() const { return actions_; }
  std::span<StepResult> results() { return results_; }
  std::span<const std::byte> obs(int i) { return std::span(obs_).subspan(static_cast<size_t>(i) * bytes_, bytes_); }
  std::vector<CounterRng>& samplers() { return samplers_; }

 private:
  static void append(std::vector<std::byte>& to, std::span<const std::byte> from) {
    to.insert(to.end(), from.begin(), from.end());
  }
  VectorEnv vector_;
  size_t bytes_;
  std::vector<std::byte> obs_;
  std::vector<StepResult> results_;
  std::vector<CounterRng> samplers_;
  std::vector<int64_t> actions_;
};

TEST(VectorEnv, SplittingOverVectorsAndThreadsChangesNothing) {
  const auto whole = Runner({.count = 6, .seed = 3}, cartpole()).run(300);
  for (int threads : {1, 2, 5}) {
    SCOPED_TRACE(threads);
    EXPECT_EQ(Runner({.count = 6, .seed = 3, .threads = threads}, cartpole()).run(300), whole);
    auto parts = Runner({.count = 2, .seed = 3, .first_index = 0, .threads = threads}, cartpole()).run(300);
    for (auto& log : Runner({.count = 4, .seed = 3, .first_index = 2, .threads = threads}, cartpole()).run(300)) {
      parts.push_back(std::move(log));
    }
    EXPECT_EQ(parts, whole);
  }
}

TEST(VectorEnv, SeedsDifferByIndexAndBySeedZeroToo) {
  std::set<std::vector<std::byte>> starts;
  for (uint64_t seed : {0u, 1u}) {
    Runner runner({.count = 5, .seed = seed}, cartpole());
    for (int i = 0; i < 5; ++i) starts.emplace(runner.obs(i).begin(), runner.obs(i).end());
  }
  EXPECT_EQ(starts.size(), 10u);
  Runner a({.count = 5, .seed = 0}, cartpole()), b({.count = 5, .seed = 0}, cartpole());
  EXPECT_EQ(a.run(100), b.run(100));
}

// Observes {episode, time}, terminates or truncates after the number of steps it is told by its index.
class CountEnv final : public Env {
 public:
  CountEnv(int length, bool truncates, bool terminates)
      : length_(length), truncates_(truncates), terminates_(terminates) {
    spec_.id = "Count";
    spec_.observation = Box{DType::kF32, {2}, {0.0}, {1e6}};
    spec_.action = Box{DType::kF32, {2}, {-1.0}, {1.0}};
  }
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override {
    seeded_resets += seed.has_value();
    ++episode_;
    time_ = 0;
    write(obs);
  }
  StepResult step(const Action& action, std::span<std::byte> obs) override {
    ++time_;
    StepResult result;
    result.reward = action.values[0] + 10 * action.values[1];
    result.terminated = time_ == length_ && terminates_;
    result.truncated = time_ == length_ && truncates_;
    write(obs);
    return result;
  }
  int seeded_resets = 0;

 private:
  void write(std::span<std::byte> obs) const {
    const float values[2] = {static_cast<float>(episode_), static_cast<float>(time_)};
    std::memcpy(obs.data(), values, sizeof(values));
  }
  EnvSpec spec_;
  int length_;
  bool truncates_, terminates_;
  int episode_ = 0, time_ = 0;
};

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST(VectorEnv, ResetsInTheSameStepAndKeepsFinalObservationsOfTruncatedEpisodes) {
  // 0: truncates after 2. 1: terminates after 2. 2: both flags after 2 (terminated wins). 3: goes on.
  VectorEnv vector({.count = 4}, [](int i) {
    return std::make_unique<CountEnv>(i == 3 ? 99 : 2, i == 0 || i == 2, i == 1 || i == 2);
  });
  std::vector<std::array<float, 2>> obs(4);
  const auto place = [&](int i) { return std::as_writable_bytes(std::span(obs[static_cast<size_t>(i)])); };
  std::vector<StepResult> results(4);
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8};
  using Pair = std::array<float, 2>;
  vector.reset(place);
  EXPECT_THAT(obs, testing::Each(Pair{1, 0}));
  vector.step({}, values, place, results);
  EXPECT_THAT(obs, testing::Each(Pair{1, 1}));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(vector.final_observation(i).empty());
  EXPECT_EQ(results[2].reward, 5 + 10 * 6) << "every environment gets its own values";

  vector.step({}, values, place, results);
  EXPECT_THAT(obs, testing::ElementsAre(Pair{2, 0}, Pair{2, 0}, Pair{2, 0}, Pair{1, 2})) << "reset observations";
  EXPECT_TRUE(results[0].truncated && !results[0].terminated);
  EXPECT_TRUE(!results[1].truncated && results[1].terminated);
  EXPECT_TRUE(results[2].truncated && results[2].terminated);
  EXPECT_FALSE(results[3].done());
  EXPECT_THAT(floats(vector.final_observation(0)), testing::ElementsAre(1, 2));
  for (int i = 1; i < 4; ++i) EXPECT_TRUE(vector.final_observation(i).empty()) << i;

  vector.step({}, values, place, results);
  EXPECT_EQ(obs[0], (Pair{2, 1})) << "no dummy step between episodes";
  EXPECT_TRUE(vector.final_observation(0).empty()) << "kept until the next step only";
  for (int i = 0; i < 4; ++i) EXPECT_EQ(dynamic_cast<CountEnv&>(vector.env(i)).seeded_resets, 1) << "seeded once";
  vector.reset(place);
  EXPECT_EQ(dynamic_cast<CountEnv&>(vector.env(0)).seeded_resets, 1) << "a later reset continues";
}

TEST(VectorEnv, RefusesWhatDoesNotFit) {
  const auto count = [](int) { return std::make_unique<CountEnv>(5, true, false); };
  EXPECT_THROW(VectorEnv({.count = 0}, count), Error);
  EXPECT_THROW(VectorEnv({.count = 1, .threads = 0}, count), Error);
  EXPECT_THROW(VectorEnv({.count = 1}, [](int) { return std::unique_ptr<Env>(); }), Error);
  EXPECT_THROW(VectorEnv({.count = 2},
                         [](int i) -> std::unique_ptr<Env> {
                           if (i == 0) return std::make_unique<DummyEnv>();
                           return std::make_unique<CountEnv>(5, true, false);
                         }),
               Error)
      << "two kinds";
  VectorEnv vector({.count = 2}, count);
  std::vector<std::byte> memory(64);
  const auto place = [&](int i) { return std::span(memory).subspan(static_cast<size_t>(i) * 8, 8); };
  std::vector<StepResult> results(2);
  const std::vector<float> values(4);
  EXPECT_THROW(vector.step({}, values, place, results), Error) << "before reset";
  vector.reset(place);
  vector.step({}, values, place, results);
  EXPECT_THROW(vector.step({}, std::span(values).first(3), place, results), Error);
  EXPECT_THROW(vector.step(std::vector<int64_t>(2), {}, place, results), Error);
  EXPECT_THROW(vector.step({}, values, place, std::span(results).first(1)), Error);
  EXPECT_THROW(vector.step(
                   {}, values, [&](int) { return std::span(memory).first(7); }, results),
               Error);
  EXPECT_THROW(vector.env(2), Error);
  const int which[] = {0};
  EXPECT_THROW(vector.send(which, {}, std::span(values).first(2), place), Error) << "no pool";
}

// A gate that tests open by hand: steps of a gated environment wait for it.
class Gate {
 public:
  void open() {
    {
      std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

class GatedEnv final : public EnvWrapper {
 public:
  GatedEnv(std::unique_ptr<Env> inner, Gate* gate) : EnvWrapper(std::move(inner)), gate_(gate) {}
  StepResult step(const Action& action, std::span<std::byte> obs) override {
    if (gate_ != nullptr) gate_->wait();
    return EnvWrapper::step(action, obs);
  }

 private:
  Gate* gate_;
};

TEST(VectorEnv, ReceiveTakesWhoIsReadyFirst) {
  Gate gate;
  VectorEnv vector({.count = 3, .seed = 1, .threads = 2}, [&](int i) {
    return std::make_unique<GatedEnv>(std::make_unique<DummyEnv>(), i == 0 ? &gate : nullptr);
  });
  std::vector<std::byte> memory(3 * 8);
  const auto place = [&](int i) { return std::span(memory).subspan(static_cast<size_t>(i) * 8, 8); };
  vector.reset(place);
  const std::vector<int> all{0, 1, 2};
  const std::vector<int64_t> actions{1, 1, 1};
  vector.send(all, actions, {}, place);
  std::set<int> ready;
  while (ready.size() < 2) {
    for (int i : vector.receive(1)) ready.insert(i);
  }
  EXPECT_EQ(ready, (std::set<int>{1, 2})) << "0 is still on its way";
  EXPECT_THROW(vector.result(0), Error);
  EXPECT_THROW(vector.final_observation(0), Error);
  EXPECT_THROW(vector.env(0), Error);
  EXPECT_THROW(vector.save_state(), Error);
  EXPECT_THROW(vector.receive(2), Error) << "would wait forever";
  std::vector<StepResult> results(3);
  EXPECT_THROW(vector.step(actions, {}, place, results), Error);
  EXPECT_THROW(vector.send(std::vector<int>{0}, std::span(actions).first(1), {}, place), Error) << "sent twice";
  EXPECT_THROW(vector.send(std::vector<int>{1, 1}, std::span(actions).first(2), {}, place), Error) << "named twice";
  vector.send(std::vector<int>{2}, std::span(actions).first(1), {}, place);
  EXPECT_THAT(vector.receive(1), testing::ElementsAre(2)) << "others go on meanwhile";
  gate.open();
  EXPECT_THAT(vector.receive(1), testing::ElementsAre(0));
  EXPECT_FALSE(vector.result(0).done());
  EXPECT_THROW(vector.receive(1), Error) << "nobody is on the way";
}

TEST(VectorEnv, AsynchronousRunsGiveEveryEnvironmentTheSameFuture) {
  Runner sync({.count = 5, .seed = 8}, cartpole());
  sync.run(200);
  Runner async({.count = 5, .seed = 8, .threads = 2}, cartpole());
  std::vector<int> steps(5, 0), next{0, 1, 2, 3, 4};
  int finished = 0;
  while (finished < 5) {
    std::vector<int64_t> actions;
    for (int i : next) actions.push_back(async.samplers()[static_cast<size_t>(i)].below(2));
    if (!next.empty()) async.vector().send(next, actions, {}, async.place());
    next.clear();
    for (int i : async.vector().receive(1)) {
      ++steps[static_cast<size_t>(i)] < 200 ? next.push_back(i) : static_cast<void>(++finished);
    }
  }
  for (int i = 0; i < 5; ++i) EXPECT_THAT(floats(async.obs(i)), testing::ElementsAreArray(floats(sync.obs(i)))) << i;
}

class FailingEnv final : public EnvWrapper {
 public:
  explicit FailingEnv(int at) : EnvWrapper(std::make_unique<DummyEnv>()), left_(at) {}
  StepResult step(const Action& action, std::span<std::byte> obs) override {
    if (--left_ == 0) throw std::runtime_error("the joystick broke");
    return EnvWrapper::step(action, obs);
  }

 private:
  int left_;
};

class Errors : public testing::TestWithParam<int> {};

TEST_P(Errors, CarryTheEnvironmentsIndexAndAskForAReset) {
  Runner runner({.count = 4, .seed = 1, .first_index = 20, .threads = GetParam()},
                [](int i) { return std::make_unique<FailingEnv>(i == 2 ? 2 : 0); });
  runner.run(1);
  try {
    runner.run(1);
    FAIL() << "did not throw";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("environment 22"));
    EXPECT_THAT(e.what(), testing::HasSubstr("the joystick broke"));
  }
  EXPECT_THROW(runner.run(1), Error) << "not before a reset";
  runner.vector().reset(runner.place());
  EXPECT_NO_THROW(runner.run(20));
}

INSTANTIATE_TEST_SUITE_P(Threads, Errors, testing::Values(1, 2));

TEST(VectorEnv, AnErrorIsReceivedToo) {
  Runner runner({.count = 2, .seed = 1, .threads = 2},
                [](int i) { return std::make_unique<FailingEnv>(i == 1 ? 1 : 0); });
  const std::vector<int> which{0, 1};
  const std::vector<int64_t> actions{1, 1};
  runner.vector().send(which, actions, {}, runner.place());
  EXPECT_THROW(runner.vector().receive(2), Error);
  EXPECT_THROW(runner.vector().send(which, actions, {}, runner.place()), Error);
  runner.vector().reset(runner.place());
  EXPECT_NO_THROW(runner.run(5));
}

TEST(VectorEnv, ResetCallsBackWhoIsOnTheWay) {
  Runner runner({.count = 3, .seed = 1, .threads = 2}, cartpole());
  const std::vector<int> which{0, 2};
  const std::vector<int64_t> actions{1, 0};
  runner.vector().send(which, actions, {}, runner.place());
  runner.vector().reset(runner.place());
  EXPECT_NO_THROW(runner.run(5));
}

TEST(VectorEnv, LoadedStateHasTheSameFuture) {
  Runner a({.count = 3, .seed = 4, .threads = 2}, cartpole(7));
  a.run(7);  // some have just been truncated
  ASSERT_TRUE(a.vector().can_save_state());
  const auto state = a.vector().save_state();
  std::vector<std::vector<float>> finals;
  for (int i = 0; i < 3; ++i) finals.push_back(floats(a.vector().final_observation(i)));
  EXPECT_THAT(finals, testing::Contains(testing::Not(testing::IsEmpty())));
  Runner b({.count = 3, .seed = 77}, cartpole(7));
  b.vector().load_state(state);
  for (size_t i = 0; i < 3; ++i) {
    b.samplers()[i].set_position(a.samplers()[i].position());
    EXPECT_EQ(floats(b.vector().final_observation(static_cast<int>(i))), finals[i]);
  }
  EXPECT_EQ(a.run(100), b.run(100));
  std::vector<Episode> of_a, of_b;
  a.vector().take_episodes(of_a);
  b.vector().take_episodes(of_b);
  EXPECT_GT(of_a.size(), 30u);
  EXPECT_EQ(of_a.size(), of_b.size()) << "episodes not yet taken travel with the state";
  b.vector().reset(b.place());
  a.vector().reset(a.place());
  EXPECT_EQ(a.run(50), b.run(50)) << "the generators travel too";

  EXPECT_THROW(Runner({.count = 2, .seed = 4}, cartpole()).vector().load_state(state), Error);
  EXPECT_THROW(Runner({.count = 3, .seed = 4, .first_index = 3}, cartpole()).vector().load_state(state), Error);
  EXPECT_THROW(b.vector().load_state(std::span(state).first(state.size() - 1)), Error);
}

class Allocations : public testing::TestWithParam<int> {};

TEST_P(Allocations, NoneInAStepWhenWarm) {
  Runner runner({.count = 4, .seed = 2, .threads = GetParam()}, cartpole(30));
  std::vector<Episode> episodes;
  episodes.reserve(1000);
  const auto place = runner.place();
  for (int t = 0; t < 100; ++t) {
    runner.draw();
    runner.vector().step(runner.actions(), {}, place, runner.results());
    runner.vector().take_episodes(episodes);
  }
  const uint64_t before = allocations_of_all_threads();
  for (int t = 0; t < 500; ++t) {
    runner.draw();
    runner.vector().step(runner.actions(), {}, place, runner.results());
    runner.vector().take_episodes(episodes);
  }
  EXPECT_EQ(allocations_of_all_threads() - before, 0u);
  EXPECT_GT(episodes.size(), 60u) << "with ends of episodes in it";
}

INSTANTIATE_TEST_SUITE_P(Threads, Allocations, testing::Values(1, 2));

TEST(AllocationCounter, Counts) {
  const uint64_t mine = allocations_of_this_thread(), all = allocations_of_all_threads();
  auto memory = std::make_unique<std::vector<int>>(10);
  EXPECT_GE(allocations_of_this_thread() - mine, 2u);
  std::thread([] { auto other = std::make_unique<std::vector<int>>(10); }).join();
  EXPECT_GE(allocations_of_all_threads() - all, 4u);
}

double process_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(VectorEnv, AWaitingPoolUsesNoProcessor) {
  Gate gate;
  VectorEnv vector({.count = 2, .threads = 2},
                   [&](int) { return std::make_unique<GatedEnv>(std::make_unique<DummyEnv>(), &gate); });
  std::vector<std::byte> memory(16);
  const auto place = [&](int i) { return std::span(memory).subspan(static_cast<size_t>(i) * 8, 8); };
  vector.reset(place);
  // The gate opens after 200 ms; until then the caller waits for the pool and the pool for the gate.
  std::jthread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    gate.open();
  });
  const double before = process_cpu_seconds();
  std::vector<StepResult> results(2);
  vector.step(std::vector<int64_t>{0, 1}, {}, place, results);
  EXPECT_LT(process_cpu_seconds() - before, 0.1);
}

// Several numbers an action, parts in the observation: the vector's rows are those of its environments alone.
TEST(VectorEnv, SeveralNumbersAnAction) {
  for (const int threads : {1, 2}) {
    VectorEnv envs({.count = 3, .seed = 5, .threads = threads},
                   [](int) { return std::make_unique<MatchEnv>(MatchEnv::Actions::kSeveral, true); });
    const size_t bytes = envs.spec().observation.bytes();
    std::vector<std::byte> obs(3 * bytes), alone(bytes);
    const auto row = [&](int i) { return std::span(obs).subspan(static_cast<size_t>(i) * bytes, bytes); };
    std::vector<MatchEnv> singles;
    for (int i = 0; i < 3; ++i) singles.emplace_back(MatchEnv::Actions::kSeveral, true);
    envs.reset(row);
    for (int i = 0; i < 3; ++i) singles[static_cast<size_t>(i)].reset(derive_seed(5, static_cast<uint64_t>(i)), alone);
    std::vector<StepResult> results(3);
    for (int t = 0; t < 9; ++t) {
      const std::vector<int64_t> actions = {t % 3, 0, (t + 1) % 3, 1, 2, t % 2};
      envs.step(actions, {}, row, results);
      for (size_t i = 0; i < 3; ++i) {
        const StepResult r = singles[i].step(Action::multi(std::span(actions).subspan(2 * i, 2)), alone);
        if (r.done()) singles[i].reset({}, alone);
        EXPECT_EQ(r.reward, results[i].reward);
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), row(static_cast<int>(i)).begin()));
      }
    }
    EXPECT_THROW(envs.step(std::vector<int64_t>{0, 0, 0}, {}, row, results), Error);
  }
}

// Where steps happen elsewhere, all have begun before the first is waited for.
class ElsewhereEnv final : public EnvWrapper {
 public:
  ElsewhereEnv(int index, std::vector<std::string>& log)
      : EnvWrapper(std::make_unique<DummyEnv>()), index_(index), log_(log) {}
  bool can_begin_step() const override { return true; }
  void begin_step(const Action& action) override { log_.push_back(fmt::format("begin {}:{}", index_, action.index)); }
  StepResult step(const Action& action, std::span<std::byte> obs) override {
    log_.push_back(fmt::format("step {}:{}", index_, action.index));
    return EnvWrapper::step(action, obs);
  }

 private:
  int index_;
  std::vector<std::string>& log_;
};

TEST(VectorEnv, BeginsAllStepsBeforeItWaitsForOne) {
  std::vector<std::string> log;
  VectorEnv envs({.count = 2},
                 [&](int i) { return std::make_unique<EpisodeStatistics>(std::make_unique<ElsewhereEnv>(i, log)); });
  std::vector<float> obs(4);
  const auto row = [&](int i) { return std::as_writable_bytes(std::span(obs).subspan(static_cast<size_t>(i) * 2, 2)); };
  std::vector<StepResult> results(2);
  envs.reset(row);
  envs.step(std::vector<int64_t>{0, 1}, {}, row, results);
  EXPECT_EQ(log, (std::vector<std::string>{"begin 0:0", "begin 1:1", "step 0:0", "step 1:1"}));
}

}  // namespace
}  // namespace parl
