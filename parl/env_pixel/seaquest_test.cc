#include "parl/env_pixel/seaquest.h"

#include <gtest/gtest.h>

#include "parl/env_pixel/pixel_test_util.h"

namespace parl {
namespace {

using Game = SeaquestGame;
using Swimmer = SeaquestState::Swimmer;
CounterRng any_rng(1, 0);
constexpr int kNever = 1'000'000;

SeaquestState quiet(int x, int y) {  // under water, facing right; nothing comes
  SeaquestState s;
  s.x = x, s.y = y;
  s.at_surface = 0;
  s.enemy_timer = s.diver_timer = kNever;
  return s;
}

Swimmer still(int x, int y, int direction = 1) { return {x, y, direction, kNever, kNever}; }
Swimmer moving(int x, int y, int direction) { return {x, y, direction, 1, kNever}; }

PixelOutcome play(Game& game, const SeaquestState& state, PixelMove move = PixelMove::kNone) {
  game.set_state(state);
  return game.advance(move, any_rng);
}

TEST(Seaquest, TheSubmarineMovesWithinItsWatersAndFacesWhereItGoes) {
  Game game(true);
  const struct {
    int x, y;
    PixelMove move;
    const char *front, *back;
  } cases[] = {{4, 4, PixelMove::kRight, "5,4", "4,4"}, {4, 4, PixelMove::kLeft, "3,4", "4,4"},
               {4, 4, PixelMove::kUp, "4,3", "3,3"},    {4, 4, PixelMove::kDown, "4,5", "3,5"},
               {9, 8, PixelMove::kRight, "9,8", "8,8"}, {9, 8, PixelMove::kDown, "9,8", "8,8"},
               {0, 4, PixelMove::kLeft, "0,4", "1,4"},  {4, 4, PixelMove::kNone, "4,4", "3,4"}};
  for (const auto& c : cases) {
    play(game, quiet(c.x, c.y), c.move);
    EXPECT_EQ(cells(game, Game::kSubFront), c.front);
    EXPECT_EQ(cells(game, Game::kSubBack), c.back);
  }
}

TEST(Seaquest, FiresAheadEveryFifthStep) {
  Game game(true);
  game.set_state(quiet(2, 4));
  game.advance(PixelMove::kFire, any_rng);
  EXPECT_EQ(cells(game, Game::kFriendlyBullet), "3,4");
  for (int step = 0; step < 4; ++step) game.advance(PixelMove::kFire, any_rng);
  EXPECT_EQ(cells(game, Game::kFriendlyBullet), "7,4");
  game.advance(PixelMove::kFire, any_rng);
  EXPECT_EQ(cells(game, Game::kFriendlyBullet), "3,4 8,4");
  game.advance(PixelMove::kNone, any_rng);
  game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kFriendlyBullet), "5,4") << "the first has left";
  SeaquestState s = quiet(5, 4);
  s.direction = -1;
  play(game, s, PixelMove::kFire);
  EXPECT_EQ(cells(game, Game::kFriendlyBullet), "4,4");
}

TEST(Seaquest, AStruckEnemyIsWorthOne) {
  Game game(true);
  SeaquestState s = quiet(2, 4);
  s.fish.add(still(6, 4));
  s.fish.add(still(6, 5));
  s.subs.add(still(6, 6));
  s.divers.add(still(6, 7));
  for (int y = 4; y <= 7; ++y) s.friendly_bullets.add({5, y, 1});
  EXPECT_EQ(play(game, s).reward, 3);
  EXPECT_EQ(cells(game, Game::kEnemyFish), "");
  EXPECT_EQ(cells(game, Game::kEnemySub), "");
  EXPECT_EQ(cells(game, Game::kDiver), "6,7") << "divers are not struck";
  EXPECT_EQ(cells(game, Game::kFriendlyBullet), "6,7");
}

TEST(Seaquest, AnEnemyAndABulletDoNotPassThroughEachOther) {
  Game game(true);
  SeaquestState s = quiet(2, 1);
  s.fish.add(moving(6, 4, -1));
  s.friendly_bullets.add({5, 4, 1});
  EXPECT_EQ(play(game, s).reward, 1);
  s = quiet(2, 1);
  s.fish.add(moving(7, 4, -1));
  s.friendly_bullets.add({5, 4, 1});
  EXPECT_EQ(play(game, s).reward, 1) << "they meet in one cell";
}

TEST(Seaquest, TouchingAFishASubmarineOrABulletEndsTheEpisode) {
  const auto ends = [](auto&& put, PixelMove move = PixelMove::kNone) {
    Game game(true);
    SeaquestState s = quiet(4, 4);
    put(s);
    return play(game, s, move).terminated;
  };
  EXPECT_TRUE(ends([](SeaquestState& s) { s.fish.add(still(5, 4)); }, PixelMove::kRight));
  EXPECT_TRUE(ends([](SeaquestState& s) { s.subs.add(still(4, 5)); }, PixelMove::kDown));
  EXPECT_TRUE(ends([](SeaquestState& s) { s.fish.add(moving(5, 4, -1)); }));
  EXPECT_TRUE(ends([](SeaquestState& s) { s.subs.add(moving(3, 4, 1)); }));
  EXPECT_TRUE(ends([](SeaquestState& s) { s.enemy_bullets.add({5, 4, -1}); }));
  EXPECT_TRUE(ends([](SeaquestState& s) { s.enemy_bullets.add({4, 3, 1}); }, PixelMove::kUp));
  EXPECT_FALSE(ends([](SeaquestState& s) { s.fish.add(still(5, 4)); }));
  EXPECT_FALSE(ends([](SeaquestState& s) { s.fish.add(still(3, 4)); })) << "the back cell does not count";
  EXPECT_FALSE(ends([](SeaquestState& s) { s.enemy_bullets.add({6, 4, -1}); }));
}

TEST(Seaquest, SubmarinesShootEveryTenthStepAndFishDoNot) {
  Game game(true);
  SeaquestState s = quiet(9, 1);
  s.subs.add({4, 4, -1, kNever, 10});
  s.fish.add({4, 6, -1, kNever, 10});
  game.set_state(s);
  for (int step = 1; step < 10; ++step) game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kEnemyBullet), "");
  game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kEnemyBullet), "3,4");
  game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kEnemyBullet), "2,4");
  for (int step = 0; step < 3; ++step) game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kEnemyBullet), "");
}

TEST(Seaquest, DiversComeAboardSixAtMost) {
  Game game(true);
  SeaquestState s = quiet(4, 4);
  s.divers.add(still(5, 4));
  s.divers_aboard = 2;
  EXPECT_EQ(play(game, s, PixelMove::kRight).reward, 0);
  EXPECT_EQ(game.state().divers_aboard, 3);
  EXPECT_EQ(cells(game, Game::kDiver), "");
  EXPECT_EQ(cells(game, Game::kDiverGauge), "7,9 8,9 9,9");
  s.divers.items[0] = moving(5, 4, -1);
  play(game, s);
  EXPECT_EQ(game.state().divers_aboard, 3) << "it swims to us";
  s.divers_aboard = 6;
  play(game, s);
  EXPECT_EQ(game.state().divers_aboard, 6);
  EXPECT_EQ(cells(game, Game::kDiver), "4,4") << "no room";
}

TEST(Seaquest, OxygenGoesBelowTheSurface) {
  Game game(true);
  SeaquestState s = quiet(4, 4);
  s.oxygen = 100;
  EXPECT_FALSE(play(game, s).terminated);
  EXPECT_EQ(game.state().oxygen, 99);
  EXPECT_EQ(cells(game, Game::kOxygenGauge), "0,9 1,9 2,9 3,9");
  s.oxygen = 1;
  EXPECT_TRUE(play(game, s).terminated);
  SeaquestState start;
  start.enemy_timer = start.diver_timer = kNever;
  game.set_state(start);
  for (int step = 0; step < 5; ++step) EXPECT_FALSE(game.advance(PixelMove::kNone, any_rng).terminated);
  EXPECT_EQ(game.state().oxygen, 200) << "none goes at the surface";
  EXPECT_EQ(cells(game, Game::kOxygenGauge), "0,9 1,9 2,9 3,9 4,9 5,9 6,9 7,9 8,9 9,9");
}

TEST(Seaquest, SurfacingTakesADiverAndFillsTheTank) {
  Game game(true);
  SeaquestState s = quiet(4, 1);
  s.oxygen = 55;
  s.divers_aboard = 3;
  const PixelOutcome outcome = play(game, s, PixelMove::kUp);
  EXPECT_FALSE(outcome.terminated);
  EXPECT_EQ(outcome.reward, 0);
  EXPECT_EQ(game.state().oxygen, 200);
  EXPECT_EQ(game.state().divers_aboard, 2);
  game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(game.state().divers_aboard, 2) << "once";
  s.divers_aboard = 0;
  EXPECT_TRUE(play(game, s, PixelMove::kUp).terminated) << "nobody to bring up";
}

TEST(Seaquest, SixDiversAreWorthTheOxygenGauge) {
  for (const auto& [oxygen, reward] : {std::pair{155, 7.0f}, {200, 10.0f}, {19, 0.0f}}) {
    Game game(true);
    SeaquestState s = quiet(4, 1);
    s.oxygen = oxygen;
    s.divers_aboard = 6;
    const PixelOutcome outcome = play(game, s, PixelMove::kUp);
    EXPECT_EQ(outcome.reward, reward);
    EXPECT_EQ(game.state().divers_aboard, 0);
    EXPECT_EQ(game.state().oxygen, 200);
  }
}

TEST(Seaquest, SwimmersMoveAtTheirIntervalLeaveATrailAndTheBoard) {
  Game game(true);
  SeaquestState s = quiet(0, 8);
  s.move_interval = 3;
  s.fish.add({4, 2, 1, 3, kNever});
  s.subs.add({0, 3, -1, 6, kNever});
  s.divers.add({9, 4, 1, 5, kNever});
  game.set_state(s);
  EXPECT_EQ(cells(game, Game::kTrail), "3,2 1,3 8,4");
  std::string fish;
  for (int step = 1; step <= 6; ++step) {
    game.advance(PixelMove::kNone, any_rng);
    fish += cells(game, Game::kEnemyFish) + " ";
    EXPECT_EQ(cells(game, Game::kEnemySub), step < 6 ? "0,3" : "");
    EXPECT_EQ(cells(game, Game::kDiver), step < 5 ? "9,4" : "");
  }
  EXPECT_EQ(fish, "4,2 4,2 5,2 5,2 5,2 6,2 ");
}

TEST(Seaquest, EnemiesComeEveryTwentiethStepAThirdOfThemSubmarines) {
  Game game(true);
  CounterRng rng(7, 0);
  int subs = 0, from_left = 0;
  std::array<int, 10> rows{};
  for (int i = 0; i < 600; ++i) {
    SeaquestState s;
    s.enemy_timer = 20, s.diver_timer = kNever;
    game.set_state(s);
    for (int step = 1; step < 20; ++step) game.advance(PixelMove::kNone, rng);
    ASSERT_EQ(game.state().fish.count + game.state().subs.count, 0u);
    game.advance(PixelMove::kNone, rng);
    ASSERT_EQ(game.state().fish.count + game.state().subs.count, 1u);
    subs += static_cast<int>(game.state().subs.count);
    const Swimmer& enemy = game.state().subs.count ? game.state().subs.items[0] : game.state().fish.items[0];
    EXPECT_EQ(enemy.x, enemy.direction > 0 ? 0 : 9);
    from_left += enemy.direction > 0;
    ++rows.at(static_cast<size_t>(enemy.y));
  }
  EXPECT_NEAR(subs, 200, 40);
  EXPECT_NEAR(from_left, 300, 50);
  for (size_t y = 1; y <= 8; ++y) EXPECT_NEAR(rows[y], 75, 35) << y;
}

TEST(Seaquest, NoEnemyComesAgainstAnother) {
  Game game(true);
  CounterRng rng(8, 0);
  int with = 0;
  for (int i = 0; i < 200; ++i) {
    SeaquestState s = quiet(5, 0);
    s.at_surface = 1;
    s.enemy_timer = 1;
    for (int y = 1; y <= 8; ++y) (y % 2 ? s.fish : s.subs).add(still(4, y, -1));
    game.set_state(s);
    game.advance(PixelMove::kNone, rng);
    for (const auto* flock : {&game.state().fish, &game.state().subs}) {
      for (const Swimmer& enemy : *flock) EXPECT_EQ(enemy.direction, -1);
    }
    with += game.state().fish.count + game.state().subs.count == 9;
  }
  EXPECT_NEAR(with, 100, 35) << "along with it they come";
}

TEST(Seaquest, DiversComeEveryThirtiethStep) {
  Game game(true);
  SeaquestState s;
  s.enemy_timer = kNever;
  game.set_state(s);
  for (int step = 1; step < 30; ++step) game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(game.state().divers.count, 0u);
  game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(game.state().divers.count, 1u);
  for (int step = 0; step < 30; ++step) game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(game.state().divers.count, 2u);
}

TEST(Seaquest, EverySurfacingMakesItHarder) {
  for (const bool ramp : {true, false}) {
    Game game(ramp);
    SeaquestState s = quiet(4, 1);
    for (int time = 1; time <= 25; ++time) {
      s.y = 1, s.at_surface = 0, s.divers_aboard = 1;
      play(game, s, PixelMove::kUp);
      s = game.state();
      EXPECT_EQ(s.enemy_interval, ramp ? std::max(1, 20 - time) : 20);
      EXPECT_EQ(s.move_interval, ramp ? std::max(2, 5 - time / 2) : 5);
    }
  }
}

TEST(Seaquest, AFullFlockTakesNoMore) {
  PixelFlock<int, 2> flock;
  for (int i = 0; i < 3; ++i) flock.add(i);
  EXPECT_EQ(flock.count, 2u);
  EXPECT_EQ(flock.remove_if([](int i) { return i == 0; }), 1);
  EXPECT_EQ(*flock.begin(), 1);
}

}  // namespace
}  // namespace parl
