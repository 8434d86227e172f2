#include "parl/env_pixel/asterix.h"

#include <gtest/gtest.h>

#include "parl/env_pixel/pixel_test_util.h"

namespace parl {
namespace {

using Game = AsterixGame;
CounterRng any_rng(1, 0);
constexpr int kNever = 1'000'000;

AsterixState quiet(int x, int y) {  // nothing comes, nothing moves
  AsterixState s;
  s.x = x, s.y = y;
  s.spawn_timer = s.move_timer = s.ramp_timer = kNever;
  return s;
}

AsterixState with(AsterixState s, int row, int x, int direction, bool gold) {
  s.lanes.at(static_cast<size_t>(row - 1)) = {.present = 1, .x = x, .direction = direction, .gold = gold};
  return s;
}

PixelOutcome play(Game& game, const AsterixState& state, PixelMove move = PixelMove::kNone) {
  game.set_state(state);
  return game.advance(move, any_rng);
}

TEST(Asterix, TreasureIsCollected) {
  Game game(true);
  const PixelOutcome outcome = play(game, with(quiet(4, 3), 3, 5, -1, true), PixelMove::kRight);
  EXPECT_EQ(outcome.reward, 1);
  EXPECT_FALSE(outcome.terminated);
  EXPECT_EQ(cells(game, Game::kGold), "");
  EXPECT_EQ(game.advance(PixelMove::kNone, any_rng).reward, 0) << "once";
}

TEST(Asterix, AnEnemyEndsTheEpisode) {
  Game game(true);
  const PixelOutcome outcome = play(game, with(quiet(4, 3), 4, 4, 1, false), PixelMove::kDown);
  EXPECT_EQ(outcome.reward, 0);
  EXPECT_TRUE(outcome.terminated);
  EXPECT_FALSE(play(game, with(quiet(4, 3), 4, 4, 1, false)).terminated) << "in another row";
}

TEST(Asterix, ThingsThatMoveOntoThePlayerCountToo) {
  Game game(true);
  AsterixState s = with(quiet(4, 3), 3, 5, -1, false);
  s.move_timer = 1;
  EXPECT_TRUE(play(game, s).terminated);
  s.lanes[2].gold = 1;
  EXPECT_EQ(play(game, s).reward, 1);
}

TEST(Asterix, ThingsMoveEveryFifthStepAndLeaveAtTheEdge) {
  Game game(true);
  AsterixState s = with(with(quiet(0, 1), 2, 5, 1, false), 3, 8, -1, true);
  s = with(s, 4, 9, 1, false);
  s.move_timer = 5;
  game.set_state(s);
  for (int step = 1; step < 5; ++step) game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kEnemy), "5,2 9,4");
  EXPECT_EQ(cells(game, Game::kTrail), "4,2 9,3 8,4");
  game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kEnemy), "6,2");
  EXPECT_EQ(cells(game, Game::kGold), "7,3");
  EXPECT_EQ(cells(game, Game::kTrail), "5,2 8,3") << "what has left leaves none";
  for (int step = 0; step < 5; ++step) game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kGold), "6,3");
}

TEST(Asterix, ThePlayerStaysInTheLanes) {
  Game game(true);
  const struct {
    PixelMove move;
    const char *from_middle, *from_corner;
  } cases[] = {{PixelMove::kLeft, "3,5", "0,1"}, {PixelMove::kUp, "4,4", "0,1"}};
  for (const auto& c : cases) {
    play(game, quiet(4, 5), c.move);
    EXPECT_EQ(cells(game, Game::kPlayer), c.from_middle);
    play(game, quiet(0, 1), c.move);
    EXPECT_EQ(cells(game, Game::kPlayer), c.from_corner);
  }
  play(game, quiet(9, 8), PixelMove::kRight);
  EXPECT_EQ(cells(game, Game::kPlayer), "9,8");
  play(game, quiet(9, 8), PixelMove::kDown);
  EXPECT_EQ(cells(game, Game::kPlayer), "9,8");
  play(game, quiet(9, 8), PixelMove::kFire);
  EXPECT_EQ(cells(game, Game::kPlayer), "9,8");
}

TEST(Asterix, SomethingComesEveryTenthStepFromARandomSideIntoAFreeLane) {
  Game game(false);
  CounterRng rng(5, 0);
  int gold = 0, from_left = 0;
  std::array<int, 8> lanes{};
  for (int i = 0; i < 600; ++i) {
    AsterixState s = quiet(5, 5);
    s.spawn_timer = 10;
    game.set_state(s);
    for (int step = 1; step <= 10; ++step) {
      game.advance(PixelMove::kNone, rng);
      int present = 0;
      for (size_t l = 0; l < 8; ++l) {
        const auto& lane = game.state().lanes[l];
        if (lane.present == 0) continue;
        ++present;
        if (step < 10) continue;
        ++lanes[l];
        gold += lane.gold;
        from_left += lane.direction > 0;
        EXPECT_EQ(lane.x, lane.direction > 0 ? 0 : 9);
      }
      EXPECT_EQ(present, step == 10);
    }
  }
  EXPECT_NEAR(gold, 200, 40);
  EXPECT_NEAR(from_left, 300, 50);
  for (const int count : lanes) EXPECT_NEAR(count, 75, 35);
}

TEST(Asterix, OneThingALane) {
  Game game(false);
  AsterixState s = quiet(5, 5);
  s.x = 0;
  for (int row = 1; row <= 8; ++row) {
    if (row != 6) s = with(s, row, 4, 1, false);
  }
  s.spawn_timer = 1;
  play(game, s);
  EXPECT_EQ(game.state().lanes[5].present, 1) << "the only lane that was free";
  s = with(s, 6, 4, 1, false);
  play(game, s);
  EXPECT_EQ(cells(game, Game::kEnemy), "4,1 4,2 4,3 4,4 4,5 4,6 4,7 4,8");
}

TEST(Asterix, RampsEveryHundredSteps) {
  for (const bool ramp : {true, false}) {
    Game game(ramp);
    AsterixState s = quiet(5, 5);
    s.ramp_timer = 100;
    game.set_state(s);
    for (int step = 1; step <= 200; ++step) {
      game.advance(PixelMove::kNone, any_rng);
      const int ramps = ramp ? step / 100 : 0;
      EXPECT_EQ(game.state().spawn_interval, 10 - ramps);
      EXPECT_EQ(game.state().move_interval, 5 - ramps / 2);
    }
  }
  Game game(true);
  AsterixState s = quiet(5, 5);
  s.ramp_timer = s.spawn_interval = s.move_interval = s.ramps = 1;
  play(game, s);
  EXPECT_EQ(game.state().spawn_interval, 1);
  EXPECT_EQ(game.state().move_interval, 1);
}

}  // namespace
}  // namespace parl
