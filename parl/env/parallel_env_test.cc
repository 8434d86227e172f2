// Games of several agents and their seats in a VectorEnv. The game here counts, so that every number is known: agent i
// leaves after step i + 2, the observation is [steps, agent], the reward is agent + action.
#include "parl/env/parallel_env.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "parl/core/error_of.h"
#include "parl/env/allocation_counter.h"
#include "parl/env/parallel_conformance.h"
#include "parl/env/registry.h"
#include "parl/env/state_io.h"
#include "parl/env/vector_env.h"

namespace parl {
namespace {

class CountingGame final : public ParallelEnv {
 public:
  explicit CountingGame(int agents = 3, bool truncates = false) : truncates_(truncates) {
    spec_.id = "Counting";
    for (int i = 0; i < agents; ++i)
      spec_.agents.push_back({"agent_" + std::to_string(i), Box{DType::kF32, {2}, {0.0}, {1e6}}, Discrete{2}});
  }
  const ParallelSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> seed, Places obs) override {
    if (seed) games_ = static_cast<int>(*seed % 7);
    ++games_;
    steps_ = 0;
    running_ = true;
    for (size_t i = 0; i < obs.size(); ++i) write(i, obs[i]);
  }
  void step(std::span<const Action> actions, Places obs, std::span<StepResult> results) override {
    PARL_CHECK(running_ && anyone_alive(), "'{}': call reset() first", spec_.id);
    for (const Action& action : actions)
      PARL_CHECK(action.index == 0 || action.index == 1, "no action {}", action.index);
    std::array<bool, 8> lived{};
    for (size_t i = 0; i < obs.size(); ++i) lived[i] = alive(i);
    ++steps_;
    for (size_t i = 0; i < obs.size(); ++i) {
      if (!lived[i]) continue;
      results[i] = {};
      results[i].reward = static_cast<float>(i) + static_cast<float>(actions[i].index);
      (truncates_ ? results[i].truncated : results[i].terminated) = !alive(i);
      write(i, obs[i]);
    }
  }
  bool alive(size_t agent) const override { return running_ && steps_ < static_cast<int>(agent) + 2; }
  void scalars(size_t agent, std::vector<std::pair<std::string, double>>& out) const override {
    out.emplace_back("seat", static_cast<double>(agent));
  }
  bool can_save_state() const override { return true; }
  std::vector<std::byte> save_state() const override {
    StateWriter out;
    out.put(games_);
    out.put(steps_);
    out.put(running_);
    return out.take();
  }
  void load_state(std::span<const std::byte> state) override {
    StateReader in(state);
    in.get(games_);
    in.get(steps_);
    in.get(running_);
    in.finish();
  }

 private:
  void write(size_t agent, std::span<std::byte> place) const {
    const float values[2] = {static_cast<float>(10 * games_ + steps_), static_cast<float>(agent)};
    std::memcpy(place.data(), values, sizeof(values));
  }
  ParallelSpec spec_;
  bool truncates_;
  int games_ = 0, steps_ = 0;
  bool running_ = false;
};

// A VectorEnv of seats whose observations are read as numbers.
struct Seats {
  explicit Seats(int count, int threads = 1, bool truncates = false)
      : obs(static_cast<size_t>(count) * 2), results(static_cast<size_t>(count)) {
    registry.add_parallel("Counting", "for tests",
                          [truncates](const EnvRequest&) { return std::make_unique<CountingGame>(3, truncates); });
    envs = std::make_unique<VectorEnv>(VectorEnv::Options{.count = count, .seed = 3, .threads = threads},
                                       registry.vector_factory({.id = "Counting"}, count));
  }
  VectorEnv::ObsPlace place() {
    return [this](int i) { return std::as_writable_bytes(std::span(obs).subspan(static_cast<size_t>(i) * 2, 2)); };
  }
  void reset() { envs->reset(place()); }
  void step(std::vector<int64_t> actions) { envs->step(actions, {}, place(), results); }
  float at(int i, int k) const { return obs[static_cast<size_t>(2 * i + k)]; }
  const StepResult& result(int i) const { return results[static_cast<size_t>(i)]; }
  std::vector<Episode> episodes() {
    std::vector<Episode> out;
    envs->take_episodes(out);
    return out;
  }

  EnvRegistry registry;
  std::unique_ptr<VectorEnv> envs;
  std::vector<float> obs;
  std::vector<StepResult> results;
};

TEST(ParallelEnv, TheTestsGameKeepsTheContract) {
  check_parallel_env([] { return std::make_unique<CountingGame>(); });
}

TEST(ParallelEnv, ConformanceSeesAnAgentThatLeavesSilently) {
  class Silent final : public ParallelEnv {
   public:
    const ParallelSpec& spec() const override { return inner_.spec(); }
    void reset(std::optional<uint64_t> seed, Places obs) override { inner_.reset(seed, obs); }
    void step(std::span<const Action> actions, Places obs, std::span<StepResult> results) override {
      inner_.step(actions, obs, results);
      for (StepResult& r : results) r.terminated = false;
    }
    bool alive(size_t agent) const override { return inner_.alive(agent); }

   private:
    CountingGame inner_;
  };
  const std::string error = error_of([] { check_parallel_env([] { return std::make_unique<Silent>(); }); });
  EXPECT_NE(error.find("alive() and its flags disagree"), std::string::npos) << error;
}

TEST(Seats, StepTogetherAndStartTogether) {
  for (int threads : {1, 3}) {
    Seats s(6, threads);
    s.reset();
    const float game = s.at(0, 0);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(s.at(i, 0), game);  // one game: one counter
      EXPECT_EQ(s.at(i, 1), static_cast<float>(i));
    }
    s.step({1, 0, 1, 0, 0, 0});
    EXPECT_EQ(s.at(2, 0), game + 1);
    EXPECT_EQ(s.result(0).reward, 1);
    EXPECT_EQ(s.result(1).reward, 1);
    EXPECT_EQ(s.result(2).reward, 3);
    EXPECT_EQ(s.result(5).reward, 2);
    EXPECT_FALSE(s.result(0).done());
    s.step({0, 0, 0, 0, 0, 0});  // the first agents leave and see zeros from here on
    EXPECT_TRUE(s.result(0).terminated);
    EXPECT_FALSE(s.result(1).done());
    EXPECT_EQ(s.at(0, 0), 0);
    EXPECT_EQ(s.at(1, 0), game + 2);
    s.step({1, 0, 0, 0, 0, 0});
    EXPECT_TRUE(s.result(0).terminated);  // waits: a step of its own that ends at once
    EXPECT_EQ(s.result(0).reward, 0);
    EXPECT_TRUE(s.result(1).terminated);
    EXPECT_EQ(s.at(1, 0), 0);
    EXPECT_EQ(s.at(2, 0), game + 3);
    s.step({0, 0, 1, 0, 0, 0});  // the last one leaves: everybody is in the next game
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(s.result(i).terminated);
      EXPECT_EQ(s.at(i, 0), game + 10);
      EXPECT_EQ(s.at(i, 1), static_cast<float>(i));
    }
    EXPECT_EQ(s.result(2).reward, 3);
    const auto episodes = s.episodes();
    ASSERT_EQ(episodes.size(), 6u);  // waiting is no episode
    EXPECT_EQ(episodes[0].raw_return, 1);
    EXPECT_EQ(episodes[0].length, 2);
    EXPECT_EQ(episodes[1].raw_return, 3);
    EXPECT_EQ(episodes[2].raw_return, 3 + 2 + 2 + 3);
    EXPECT_EQ(episodes[2].length, 4);
    const std::vector<std::pair<std::string, double>> scalars{{"seat", 2}, {"return/agent_2", 10}};
    EXPECT_EQ(episodes[2].scalars, scalars);
    s.step({0, 0, 0, 0, 0, 0});
    EXPECT_EQ(s.at(0, 0), game + 11);
  }
}

TEST(Seats, TruncationKeepsTheFinalObservation) {
  Seats s(3, 1, true);
  s.reset();
  const float game = s.at(0, 0);
  s.step({0, 0, 0});
  s.step({0, 0, 0});
  EXPECT_TRUE(s.result(0).truncated);
  const auto last = s.envs->final_observation(0);
  ASSERT_EQ(last.size(), 8u);
  float values[2];
  std::memcpy(values, last.data(), 8);
  EXPECT_EQ(values[0], game + 2);
  s.step({0, 0, 0});
  EXPECT_TRUE(s.result(0).terminated);  // waiting steps bootstrap nothing
  EXPECT_TRUE(s.envs->final_observation(0).empty());
}

TEST(Seats, ContinueFromTheirState) {
  Seats a(6), b(6);
  a.reset();
  for (int k = 0; k < 3; ++k) a.step({1, 0, 1, 0, 1, 1});
  b.reset();
  b.envs->load_state(a.envs->save_state());
  for (int k = 0; k < 9; ++k) {
    a.step({0, 1, 0, 1, 1, 0});
    b.step({0, 1, 0, 1, 1, 0});
    EXPECT_EQ(a.obs, b.obs);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(a.result(i).reward, b.result(i).reward);
  }
  const auto of_a = a.episodes(), of_b = b.episodes();
  ASSERT_FALSE(of_b.empty());
  EXPECT_EQ(of_a.back().raw_return, of_b.back().raw_return);
}

TEST(Seats, AVectorResetStartsEveryGameAgain) {
  Seats s(3);
  s.reset();
  s.step({0, 0, 0});
  const float before = s.at(0, 0);
  s.reset();
  EXPECT_GT(s.at(0, 0), before);
  for (int i = 1; i < 3; ++i) EXPECT_EQ(s.at(i, 0), s.at(0, 0));
}

TEST(Seats, EmptySeatsAreRefused) {
  const std::string error = error_of([] { Seats s(4); });
  EXPECT_NE(error.find("has 3 agents"), std::string::npos) << error;
  EXPECT_NE(error.find("multiple of 3"), std::string::npos) << error;
}

TEST(Seats, OneAloneCannotStep) {
  const auto seats = make_seats(std::make_unique<CountingGame>());
  std::vector<std::byte> obs(8);
  seats[0]->reset(0, obs);
  const std::string error = error_of([&] { seats[0]->step(Action::discrete(0), obs); });
  EXPECT_NE(error.find("act together"), std::string::npos) << error;
}

TEST(Seats, AllocateNothingOnceWarm) {
  Seats s(6);
  s.reset();
  const std::vector<int64_t> actions(6, 0);
  const auto place = s.place();
  for (int k = 0; k < 8; ++k) s.envs->step(actions, {}, place, s.results);
  s.episodes();
  const uint64_t before = allocations_of_this_thread();
  s.envs->step(actions, {}, place, s.results);  // nobody leaves in this one
  EXPECT_EQ(allocations_of_this_thread(), before);
}

}  // namespace
}  // namespace parl
