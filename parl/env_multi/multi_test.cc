#include "parl/env_multi/multi.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "parl/core/error_of.h"
#include "parl/env/allocation_counter.h"
#include "parl/env/parallel_conformance.h"
#include "parl/env_multi/gather.h"
#include "parl/env_multi/rally.h"

namespace parl {
namespace {

// A game whose observations can be read.
template <typename Game>
struct Table {
  explicit Table(Game made) : game(std::move(made)) {
    for (const AgentSpec& agent : game.spec().agents) seen.emplace_back(static_cast<size_t>(agent.observation.size()));
    for (auto& values : seen) places.push_back(std::as_writable_bytes(std::span(values)));
    results.resize(seen.size());
  }
  void reset(uint64_t seed) { game.reset(seed, places); }
  void step(const std::vector<int64_t>& indices) {
    std::vector<Action> actions;
    for (int64_t index : indices) actions.push_back(Action::discrete(index));
    game.step(actions, places, results);
  }
  std::map<std::string, double> scalars() const {
    std::vector<std::pair<std::string, double>> out;
    game.scalars(0, out);
    return {out.begin(), out.end()};
  }
  Game game;
  std::vector<std::vector<float>> seen;
  std::vector<std::span<std::byte>> places;
  std::vector<StepResult> results;
};

TEST(MultiGames, KeepTheContract) {
  for (const std::string& name : multi_games()) {
    SCOPED_TRACE(name);
    check_parallel_env([&] { return make_multi_game({.id = "multi:" + name}); },
                       {.allocations = allocations_of_this_thread});
  }
  check_parallel_env(
      [] {
        return make_multi_game({.id = "multi:gather", .args = {{"agents", "4"}, {"fruit", "6"}}});
      },
      {.allocations = allocations_of_this_thread});
}

// The paddle follows the ball, as far as one can see.
int64_t follow(const std::vector<float>& seen) {
  const float ball = seen[2];
  return ball < seen[0] - 0.01f ? 0 : ball > seen[0] + 0.01f ? 2 : 1;
}

TEST(Rally, FollowingTheBallKeepsItInPlay) {
  Table t{Rally(200)};
  for (uint64_t seed = 0; seed < 50; ++seed) {
    t.reset(seed);
    int steps = 0;
    while (t.game.anyone_alive()) {
      t.step({follow(t.seen[0]), follow(t.seen[1])});
      ++steps;
      for (int i = 0; i < 2; ++i) EXPECT_EQ(t.results[static_cast<size_t>(i)].reward, 0);
    }
    EXPECT_EQ(steps, 200);
    EXPECT_TRUE(t.results[0].truncated && t.results[1].truncated);
    EXPECT_FALSE(t.results[0].terminated);
    // A way across the court is 11 steps, the first one 5 or 6.
    EXPECT_EQ(t.scalars().at("rally"), 1 + (200 - (t.scalars().at("rally") > 0 ? 6 : 0)) / 11);
  }
}

TEST(Rally, WhoMissesPaysTheOther) {
  Table t{Rally(200)};
  int lost[2] = {0, 0};
  for (uint64_t seed = 0; seed < 60; ++seed) {
    t.reset(seed);
    while (t.game.anyone_alive()) t.step({0, follow(t.seen[1])});  // the near one runs to the wall
    EXPECT_EQ(t.results[0].reward + t.results[1].reward, 0);
    if (t.results[0].terminated) ++lost[t.results[0].reward < 0 ? 0 : 1];
  }
  EXPECT_EQ(lost[1], 0);
  EXPECT_GT(lost[0], 30);
}

TEST(Rally, BothSeeTheCourtFromTheirOwnSide) {
  Table t{Rally(200)};
  t.reset(4);
  for (int k = 0; k < 30 && t.game.anyone_alive(); ++k) {
    t.step({2, 1});
    EXPECT_EQ(t.seen[0][0], t.seen[1][1]);
    EXPECT_EQ(t.seen[0][1], t.seen[1][0]);
    EXPECT_EQ(t.seen[0][2], t.seen[1][2]);
    EXPECT_NEAR(t.seen[0][3], -t.seen[1][3], 1e-6);
    EXPECT_EQ(t.seen[0][4], t.seen[1][4]);
    EXPECT_EQ(t.seen[0][5], -t.seen[1][5]);
  }
}

// Walks beside the first fruit that is left, both agents to the same: plain greed gathers all.
int64_t towards(const std::vector<float>& seen, int agents) {
  for (size_t at = static_cast<size_t>(2 * agents); at + 3 < seen.size() + 1; at += 4) {
    if (seen[at + 3] == 0) continue;
    const float dx = seen[at] * 6, dy = seen[at + 1] * 6;
    if (std::abs(dx) + std::abs(dy) < 1.5f) return 0;
    if (std::abs(dx) > std::abs(dy)) return dx < 0 ? 3 : 4;
    return dy < 0 ? 1 : 2;
  }
  return 0;
}

TEST(Gather, RewardsOfAllSumToOne) {
  Table t{Gather({.agents = 2, .fruit = 3, .max_steps = 0})};
  CounterRng random(5, 0);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    t.reset(seed);
    double sum = 0;
    int steps = 0;
    while (t.game.anyone_alive() && steps < 5000) {
      std::vector<int64_t> actions;
      for (int i = 0; i < 2; ++i) {  // now and then at random: they stand in each other's way
        actions.push_back(random.below(4) == 0 ? static_cast<int64_t>(random.below(5))
                                               : towards(t.seen[static_cast<size_t>(i)], 2));
      }
      t.step(actions);
      ++steps;
      for (const StepResult& r : t.results) sum += r.reward;
    }
    EXPECT_TRUE(t.results[0].terminated && t.results[1].terminated);
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_EQ(t.scalars().at("gathered"), 1);
  }
}

TEST(Gather, HeavyFruitNeedsTwo) {
  Table t{Gather({.agents = 2, .fruit = 1, .max_steps = 100})};
  int heavy = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    t.reset(seed);
    if (t.seen[0][6] != 1.0f) continue;  // weight / 2
    if (std::abs(t.seen[1][4]) * 6 + std::abs(t.seen[1][5]) * 6 < 2.5f) continue;
    ++heavy;
    double sum = 0;
    while (t.game.anyone_alive()) {
      t.step({towards(t.seen[0], 2), 0});  // the other one stands still, somewhere else
      sum += t.results[0].reward + t.results[1].reward;
    }
    EXPECT_EQ(sum, 0);
    EXPECT_TRUE(t.results[0].truncated);
    EXPECT_FALSE(t.results[0].terminated);
  }
  EXPECT_GT(heavy, 5);
}

TEST(MultiGames, WrongNamesAndOptions) {
  const auto make = [](const std::string& id, EnvArgs args) {
    return error_of([&] {
      EnvRegistry registry;
      register_multi_envs(registry);
      registry.make({.id = id, .args = std::move(args)});
    });
  };
  EXPECT_NE(make("multi:raly", {}).find("multi:rally"), std::string::npos);
  EXPECT_NE(make("multi:gather", {{"agents", "5"}}).find("2..4 agents"), std::string::npos);
  EXPECT_NE(make("multi:gather", {{"fruits", "5"}}).find("fruit"), std::string::npos);
  EXPECT_NE(make("multi:rally", {{"agents", "2"}}).find("multi:gather"), std::string::npos);
  EXPECT_EQ(make("multi:gather", {{"agents", "3"}}), "nothing thrown");
}

}  // namespace
}  // namespace parl
