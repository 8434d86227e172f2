#include "parl/env_pixel/freeway.h"

#include <gtest/gtest.h>

#include <set>

#include "parl/env_pixel/pixel_test_util.h"

namespace parl {
namespace {

using Game = FreewayGame;
CounterRng any_rng(1, 0);
constexpr int kNever = 1'000'000;

FreewayState parked(int y, int cooldown = 0) {  // cars in column 0 that do not move
  FreewayState s;
  s.y = y;
  s.cooldown = cooldown;
  for (FreewayState::Car& car : s.cars) car = {.x = 0, .direction = 1, .interval = 5, .timer = kNever};
  return s;
}

PixelOutcome play(Game& game, const FreewayState& state, PixelMove move = PixelMove::kNone) {
  game.set_state(state);
  return game.advance(move, any_rng);
}

TEST(Freeway, TheChickenWalksEveryThirdStep) {
  Game game;
  game.set_state(parked(9));
  std::string rows;
  for (int step = 0; step < 7; ++step) {
    game.advance(PixelMove::kUp, any_rng);
    rows += std::to_string(game.state().y);
  }
  EXPECT_EQ(rows, "8887776");
  game.set_state(parked(5));
  game.advance(PixelMove::kDown, any_rng);
  EXPECT_EQ(game.state().y, 6);
  EXPECT_EQ(cells(game, Game::kChicken), "4,6");
  for (const PixelMove idle : {PixelMove::kNone, PixelMove::kLeft, PixelMove::kRight, PixelMove::kFire}) {
    play(game, parked(5), idle);
    EXPECT_EQ(cells(game, Game::kChicken), "4,5") << pixel_move_name(idle);
  }
  play(game, parked(9), PixelMove::kDown);
  EXPECT_EQ(game.state().y, 9);
}

TEST(Freeway, WalkingIntoACarLeadsBackToTheBottom) {
  Game game;
  FreewayState s = parked(5);
  s.cars[3].x = 4;  // row 4
  const PixelOutcome outcome = play(game, s, PixelMove::kUp);
  EXPECT_EQ(game.state().y, 9);
  EXPECT_EQ(outcome.reward, 0);
  EXPECT_FALSE(outcome.terminated);
  s.cars[3].x = 5;
  play(game, s, PixelMove::kUp);
  EXPECT_EQ(game.state().y, 4) << "the car is beside it";
}

TEST(Freeway, ACarThatArrivesLeadsBackToo) {
  Game game;
  FreewayState s = parked(5);
  s.cars[4] = {.x = 5, .direction = -1, .interval = 3, .timer = 1};
  play(game, s);
  EXPECT_EQ(game.state().y, 9);
}

TEST(Freeway, TheTopIsWorthOneAndBringsNewTraffic) {
  Game game;
  FreewayState s = parked(1);
  for (size_t i = 0; i < 8; ++i) s.cars[i].x = static_cast<int>(i + 5) % 10;
  s.cars[0].x = 7;
  game.set_state(s);
  CounterRng rng(9, 0);
  const PixelOutcome outcome = game.advance(PixelMove::kUp, rng);
  EXPECT_EQ(outcome.reward, 1);
  EXPECT_FALSE(outcome.terminated);
  EXPECT_EQ(game.state().y, 9);
  std::set<int> intervals;
  for (size_t i = 0; i < 8; ++i) {
    const FreewayState::Car& car = game.state().cars[i];
    intervals.insert(car.interval);
    const int moved = car.interval == 1 ? car.direction : 0;
    EXPECT_EQ(car.x, (s.cars[i].x + moved + 10) % 10) << "cars stay where they are";
  }
  EXPECT_GT(intervals.size(), 1u) << "speeds are drawn anew";
}

TEST(Freeway, CarsMoveAtTheirIntervalAndComeBackOnTheOtherSide) {
  for (int interval = 1; interval <= 5; ++interval) {
    for (const int direction : {-1, 1}) {
      Game game;
      FreewayState s = parked(9);
      s.cars[2] = {.x = direction > 0 ? 9 : 0, .direction = direction, .interval = interval, .timer = interval};
      game.set_state(s);
      for (int step = 1; step < interval; ++step) game.advance(PixelMove::kNone, any_rng);
      EXPECT_EQ(game.state().cars[2].x, s.cars[2].x);
      game.advance(PixelMove::kNone, any_rng);
      EXPECT_EQ(game.state().cars[2].x, direction > 0 ? 0 : 9);
      for (int step = 0; step < interval; ++step) game.advance(PixelMove::kNone, any_rng);
      EXPECT_EQ(game.state().cars[2].x, direction > 0 ? 1 : 8);
    }
  }
}

TEST(Freeway, TheTrailsChannelTellsTheSpeed) {
  Game game;
  FreewayState s = parked(9);
  for (size_t i = 0; i < 5; ++i) s.cars[i] = {.x = 4, .direction = i % 2 ? -1 : 1, .interval = static_cast<int>(i) + 1};
  for (size_t i = 5; i < 8; ++i) s.cars[i] = {.x = 0, .direction = 1, .interval = 1};
  game.set_state(s);
  EXPECT_EQ(cells(game, Game::kCar), "4,1 4,2 4,3 4,4 4,5 0,6 0,7 0,8");
  EXPECT_EQ(cells(game, Game::kSpeed1), "3,1 9,6 9,7 9,8") << "behind the car, around the edge";
  EXPECT_EQ(cells(game, Game::kSpeed1 + 1), "5,2");
  EXPECT_EQ(cells(game, Game::kSpeed1 + 2), "3,3");
  EXPECT_EQ(cells(game, Game::kSpeed1 + 3), "5,4");
  EXPECT_EQ(cells(game, Game::kSpeed1 + 4), "3,5");
}

TEST(Freeway, StartsAtTheBottomAgainstRandomTraffic) {
  Game game;
  CounterRng rng(2, 0);
  std::array<int, 6> intervals{};
  int rightwards = 0;
  std::set<int> columns;
  for (int i = 0; i < 100; ++i) {
    game.start(rng);
    EXPECT_EQ(game.state().y, 9);
    for (const FreewayState::Car& car : game.state().cars) {
      ++intervals.at(static_cast<size_t>(car.interval));
      rightwards += car.direction > 0;
      columns.insert(car.x);
    }
  }
  for (size_t i = 1; i <= 5; ++i) EXPECT_NEAR(intervals[i], 160, 50) << i;
  EXPECT_NEAR(rightwards, 400, 80);
  EXPECT_EQ(columns.size(), 10u);
}

}  // namespace
}  // namespace parl
