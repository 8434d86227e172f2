#include "parl/env_pixel/breakout.h"

#include <gtest/gtest.h>

#include "parl/env_pixel/pixel_test_util.h"

namespace parl {
namespace {

using Game = BreakoutGame;
CounterRng any_rng(1, 0);

constexpr std::array<uint16_t, 3> kWall{0x3FF, 0x3FF, 0x3FF}, kNoWall{}, kFarBrick{1, 0, 0};

BreakoutState flying(int x, int y, int dx, int dy, int paddle = 0, std::array<uint16_t, 3> bricks = kWall) {
  return {.ball_x = x, .ball_y = y, .dx = dx, .dy = dy, .trail_x = 0, .trail_y = 8, .paddle = paddle, .bricks = bricks};
}

PixelOutcome play(Game& game, const BreakoutState& state, PixelMove move = PixelMove::kNone) {
  game.set_state(state);
  return game.advance(move, any_rng);
}

void expect_ball(const Game& game, int x, int y, int dx, int dy) {
  const BreakoutState& s = game.state();
  EXPECT_EQ(fmt::format("{},{} towards {},{}", s.ball_x, s.ball_y, s.dx, s.dy),
            fmt::format("{},{} towards {},{}", x, y, dx, dy));
}

TEST(Breakout, StartsBelowTheWallOnEitherSide) {
  Game game;
  CounterRng rng(1, 0);
  int left = 0;
  for (int i = 0; i < 200; ++i) {
    game.start(rng);
    const bool from_left = game.state().ball_x == 0;
    left += from_left;
    from_left ? expect_ball(game, 0, 3, 1, 1) : expect_ball(game, 9, 3, -1, 1);
  }
  EXPECT_NEAR(left, 100, 35);
  EXPECT_EQ(game.state().bricks, kWall);
  EXPECT_EQ(game.state().paddle, 4);
}

TEST(Breakout, TheBallTravelsAlongDiagonalsAndLeavesATrail) {
  Game game;
  EXPECT_EQ(play(game, flying(4, 5, 1, 1)).reward, 0);
  expect_ball(game, 5, 6, 1, 1);
  EXPECT_EQ(cells(game, Game::kBall), "5,6");
  EXPECT_EQ(cells(game, Game::kTrail), "4,5");
}

TEST(Breakout, SideWallsAndTheTopReflect) {
  Game game;
  play(game, flying(9, 5, 1, 1));
  expect_ball(game, 9, 6, -1, 1);
  play(game, flying(0, 6, -1, -1));
  expect_ball(game, 0, 5, 1, -1);
  play(game, flying(4, 0, 1, -1));
  expect_ball(game, 5, 0, 1, 1);
}

TEST(Breakout, ABrickBreaksAndReflects) {
  Game game;
  const PixelOutcome outcome = play(game, flying(4, 4, 1, -1));
  EXPECT_EQ(outcome.reward, 1);
  EXPECT_FALSE(outcome.terminated);
  expect_ball(game, 5, 4, 1, 1);
  EXPECT_EQ(game.state().bricks, (std::array<uint16_t, 3>{0x3FF, 0x3FF, 0x3FF & ~(1 << 5)}));
}

TEST(Breakout, AfterABrickTheBallMustLeaveTheBricksFirst) {
  Game game;
  BreakoutState inside = flying(4, 2, 1, 1);
  inside.in_bricks = 1;
  EXPECT_EQ(play(game, inside).reward, 0) << "flies through";
  expect_ball(game, 5, 3, 1, 1);
  EXPECT_EQ(game.state().bricks, kWall);
  game.advance(PixelMove::kNone, any_rng);  // 6,4 is free
  BreakoutState again = game.state();
  again.dy = -1;
  EXPECT_EQ(play(game, again).reward, 1);
}

TEST(Breakout, ThePaddleMovesWithinTheBoard) {
  Game game;
  play(game, flying(4, 5, 1, 1, 4), PixelMove::kLeft);
  EXPECT_EQ(cells(game, Game::kPaddle), "3,9");
  play(game, flying(4, 5, 1, 1, 4), PixelMove::kRight);
  EXPECT_EQ(cells(game, Game::kPaddle), "5,9");
  play(game, flying(4, 5, 1, 1, 0), PixelMove::kLeft);
  EXPECT_EQ(cells(game, Game::kPaddle), "0,9");
  play(game, flying(4, 5, 1, 1, 9), PixelMove::kRight);
  EXPECT_EQ(cells(game, Game::kPaddle), "9,9");
}

TEST(Breakout, ThePaddleBelowTheBallReflectsIt) {
  Game game;
  EXPECT_FALSE(play(game, flying(4, 8, 1, 1, 4)).terminated);
  expect_ball(game, 5, 8, 1, -1);
  EXPECT_FALSE(play(game, flying(9, 8, 1, 1, 9)).terminated);
  expect_ball(game, 9, 8, -1, -1);
}

TEST(Breakout, ThePaddleBesideTheBallSendsItBack) {
  Game game;
  EXPECT_FALSE(play(game, flying(4, 8, 1, 1, 5)).terminated);
  expect_ball(game, 5, 8, -1, -1);
  EXPECT_FALSE(play(game, flying(4, 8, -1, 1, 2), PixelMove::kRight).terminated) << "the paddle moves first";
  expect_ball(game, 3, 8, 1, -1);
}

TEST(Breakout, AMissedBallEndsTheEpisode) {
  Game game;
  EXPECT_TRUE(play(game, flying(4, 8, 1, 1, 6)).terminated);
  EXPECT_EQ(cells(game, Game::kBall), "5,9");
  EXPECT_TRUE(play(game, flying(4, 8, 1, 1, 3)).terminated);
}

TEST(Breakout, AClearedWallIsRebuiltWhenTheBallIsDown) {
  Game game;
  play(game, flying(4, 5, 1, 1, 0, kNoWall));
  EXPECT_EQ(game.state().bricks, kNoWall);
  play(game, flying(4, 8, 1, 1, 4, kNoWall));
  EXPECT_EQ(game.state().bricks, kWall);
  play(game, flying(4, 8, 1, 1, 4, kFarBrick));
  EXPECT_EQ(game.state().bricks, kFarBrick) << "one is left";
}

TEST(Breakout, ShowsTheBricks) {
  Game game;
  game.set_state(flying(4, 5, 1, 1, 0, {1 << 9, 0, 1 | 1 << 3}));
  EXPECT_EQ(cells(game, Game::kBrick), "9,1 0,3 3,3");
}

}  // namespace
}  // namespace parl
