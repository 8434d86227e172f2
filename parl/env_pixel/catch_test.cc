#include "parl/env_pixel/catch.h"

#include <gtest/gtest.h>

#include <map>

#include "parl/env_pixel/pixel_test_util.h"

namespace parl {
namespace {

CounterRng any_rng(1, 0);

PixelMove towards(const CatchState& s) {
  return s.ball_x < s.paddle ? PixelMove::kLeft : s.ball_x > s.paddle ? PixelMove::kRight : PixelMove::kNone;
}

TEST(Catch, TheBallFallsForNineStepsAndDecides) {
  for (int column = 0; column < CatchGame::kColumns; ++column) {
    for (const bool catches : {true, false}) {
      CatchGame game;
      game.start(any_rng);
      game.set_state({column, 0, 2});
      for (int step = 1; step <= 9; ++step) {
        const PixelMove away = game.state().ball_x <= 2 ? PixelMove::kRight : PixelMove::kLeft;
        const PixelOutcome outcome = game.advance(catches ? towards(game.state()) : away, any_rng);
        EXPECT_EQ(game.state().ball_y, step);
        EXPECT_EQ(game.state().ball_x, column);
        EXPECT_EQ(outcome.terminated, step == 9);
        EXPECT_EQ(outcome.reward, step < 9 ? 0.0f : catches ? 1.0f : -1.0f);
      }
    }
  }
}

TEST(Catch, ThePaddleMovesOneColumnAndStopsAtTheWalls) {
  CatchGame game;
  game.set_state({0, 0, 2});
  game.advance(PixelMove::kLeft, any_rng);
  EXPECT_EQ(game.state().paddle, 1);
  for (int i = 0; i < 3; ++i) game.advance(PixelMove::kLeft, any_rng);
  EXPECT_EQ(game.state().paddle, 0);
  game.set_state({0, 0, 2});
  for (int i = 0; i < 5; ++i) game.advance(PixelMove::kRight, any_rng);
  EXPECT_EQ(game.state().paddle, 4);
  for (const PixelMove idle : {PixelMove::kNone, PixelMove::kUp, PixelMove::kDown, PixelMove::kFire}) {
    game.set_state({0, 0, 2});
    game.advance(idle, any_rng);
    EXPECT_EQ(game.state().paddle, 2) << pixel_move_name(idle);
  }
}

TEST(Catch, StartsInARandomColumnAboveAPaddleInTheMiddle) {
  CatchGame game;
  CounterRng rng(3, 0);
  std::map<int, int> columns;
  for (int i = 0; i < 1000; ++i) {
    game.start(rng);
    EXPECT_EQ(game.state().ball_y, 0);
    EXPECT_EQ(game.state().paddle, 2);
    ++columns[game.state().ball_x];
  }
  ASSERT_EQ(columns.size(), 5u);
  for (const auto& [column, count] : columns) EXPECT_NEAR(count, 200, 60) << column;
}

TEST(Catch, OneChannelShowsBallAndPaddle) {
  CatchGame game;
  game.set_state({4, 3, 1});
  EXPECT_EQ(cells(game, 0), "4,3 1,9");
  EXPECT_EQ(game.info().channels.size(), 1u);
}

}  // namespace
}  // namespace parl
