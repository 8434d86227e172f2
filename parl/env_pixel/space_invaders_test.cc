#include "parl/env_pixel/space_invaders.h"

#include <gtest/gtest.h>

#include "parl/env_pixel/pixel_test_util.h"

namespace parl {
namespace {

using Game = SpaceInvadersGame;
using Rows = SpaceInvadersState::Rows;
CounterRng any_rng(1, 0);
constexpr int kNever = 1'000'000;

constexpr uint16_t bit(int x) { return static_cast<uint16_t>(1u << x); }

SpaceInvadersState quiet(int x) {  // one alien in the corner; nothing moves, nothing is dropped
  SpaceInvadersState s;
  s.x = x;
  s.aliens[0] = bit(0);
  s.move_timer = s.bomb_timer = kNever;
  return s;
}

PixelOutcome play(Game& game, const SpaceInvadersState& state, PixelMove move = PixelMove::kNone) {
  game.set_state(state);
  return game.advance(move, any_rng);
}

TEST(SpaceInvaders, StartsWithABlockOf24AboveTheCannon) {
  Game game(true);
  game.start(any_rng);
  EXPECT_EQ(cells(game, Game::kCannon), "5,9");
  EXPECT_EQ(cells(game, Game::kAlien),
            "2,0 3,0 4,0 5,0 6,0 7,0 2,1 3,1 4,1 5,1 6,1 7,1 2,2 3,2 4,2 5,2 6,2 7,2 2,3 3,3 4,3 5,3 6,3 7,3");
  EXPECT_EQ(cells(game, Game::kAlienLeft), cells(game, Game::kAlien));
  EXPECT_EQ(cells(game, Game::kAlienRight), "");
}

TEST(SpaceInvaders, TheCannonMovesWithinTheBoard) {
  Game game(true);
  const struct {
    int x;
    PixelMove move;
    const char* then;
  } cases[] = {{4, PixelMove::kLeft, "3,9"},  {4, PixelMove::kRight, "5,9"}, {0, PixelMove::kLeft, "0,9"},
               {9, PixelMove::kRight, "9,9"}, {4, PixelMove::kUp, "4,9"},    {4, PixelMove::kFire, "4,9"}};
  for (const auto& c : cases) {
    play(game, quiet(c.x), c.move);
    EXPECT_EQ(cells(game, Game::kCannon), c.then);
  }
}

TEST(SpaceInvaders, FiresEveryFifthStepAndShotsRiseARowAStep) {
  Game game(true);
  game.set_state(quiet(4));
  game.advance(PixelMove::kFire, any_rng);
  EXPECT_EQ(cells(game, Game::kFriendlyBullet), "4,8");
  game.advance(PixelMove::kLeft, any_rng);
  for (int step = 0; step < 3; ++step) game.advance(PixelMove::kFire, any_rng);
  EXPECT_EQ(cells(game, Game::kFriendlyBullet), "4,4") << "still loading";
  game.advance(PixelMove::kFire, any_rng);
  EXPECT_EQ(cells(game, Game::kFriendlyBullet), "4,3 3,8");
  for (int step = 0; step < 4; ++step) game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kFriendlyBullet), "3,4") << "the first has left";
}

TEST(SpaceInvaders, AShotAndAnAlienLeaveTogether) {
  Game game(true);
  SpaceInvadersState s = quiet(9);
  s.aliens[3] = bit(4) | bit(6);
  s.shots[4] = bit(4) | bit(5) | bit(6);
  const PixelOutcome outcome = play(game, s);
  EXPECT_EQ(outcome.reward, 2);
  EXPECT_EQ(cells(game, Game::kAlien), "0,0");
  EXPECT_EQ(cells(game, Game::kFriendlyBullet), "5,3");
}

TEST(SpaceInvaders, AliensThatMoveOntoAShotAreStruck) {
  Game game(true);
  SpaceInvadersState s = quiet(9);
  s.aliens[0] = bit(9);  // stays behind, so that the wave goes on
  s.aliens[3] = bit(4);
  s.shots[4] = bit(3);
  s.move_timer = 1;
  EXPECT_EQ(play(game, s).reward, 1);
  s = quiet(9);
  s.aliens[4] = bit(4);
  s.shots[5] = bit(4);
  s.move_timer = 1;  // at the edge: down, past the shot otherwise
  EXPECT_EQ(play(game, s).reward, 1) << "they do not pass through each other";
}

TEST(SpaceInvaders, AliensMoveSidewaysAndAtTheEdgeDownAndBack) {
  Game game(true);
  SpaceInvadersState s = quiet(9);
  s.aliens = {0, static_cast<uint16_t>(bit(1) | bit(3))};
  s.move_interval = 1;
  s.move_timer = 1;
  game.set_state(s);
  const char* places[] = {"0,1 2,1", "0,2 2,2", "1,2 3,2", "2,2 4,2"};
  for (int step = 0; step < 4; ++step) {
    game.advance(PixelMove::kNone, any_rng);
    EXPECT_EQ(cells(game, Game::kAlien), places[step]);
    EXPECT_EQ(cells(game, step == 0 ? Game::kAlienLeft : Game::kAlienRight), places[step]);
    EXPECT_EQ(cells(game, step == 0 ? Game::kAlienRight : Game::kAlienLeft), "");
  }
  for (int step = 4; step < 10; ++step) game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kAlien), "7,3 9,3") << "down at the right edge too";
  EXPECT_EQ(cells(game, Game::kAlienLeft), "7,3 9,3");
}

TEST(SpaceInvaders, TheFewerAreLeftTheFasterTheyMove) {
  const struct {
    uint16_t row0, row1;
    int interval;
  } cases[] = {{bit(5), 0, 1}, {bit(5) | bit(6), 0, 2}, {0b0111111110, 0, 8}, {0b0111111110, 0b0111111110, 12}};
  for (const auto& c : cases) {
    Game game(true);
    SpaceInvadersState s = quiet(9);
    s.aliens = {c.row0, c.row1};
    s.move_timer = 1;
    game.set_state(s);
    game.advance(PixelMove::kNone, any_rng);
    const Rows first = game.state().aliens;
    EXPECT_EQ(first[0], c.row0 >> 1);
    for (int step = 1; step < c.interval; ++step) {
      game.advance(PixelMove::kNone, any_rng);
      EXPECT_EQ(game.state().aliens, first) << c.interval;
    }
    game.advance(PixelMove::kNone, any_rng);
    EXPECT_NE(game.state().aliens, first) << c.interval;
  }
}

TEST(SpaceInvaders, BombsFallARowAStepAndEndTheEpisode) {
  Game game(true);
  SpaceInvadersState s = quiet(4);
  s.bombs[7] = bit(4) | bit(6);
  game.set_state(s);
  EXPECT_FALSE(game.advance(PixelMove::kNone, any_rng).terminated);
  EXPECT_EQ(cells(game, Game::kEnemyBullet), "4,8 6,8");
  EXPECT_TRUE(game.advance(PixelMove::kNone, any_rng).terminated);
  EXPECT_EQ(cells(game, Game::kEnemyBullet), "4,9 6,9");
  s.bombs[7] = 0, s.bombs[8] = bit(4);
  EXPECT_FALSE(play(game, s, PixelMove::kLeft).terminated) << "evaded";
  EXPECT_FALSE(game.advance(PixelMove::kNone, any_rng).terminated);
  EXPECT_EQ(cells(game, Game::kEnemyBullet), "");
}

TEST(SpaceInvaders, EveryTenthStepTheLowestAlienOfTheNearestColumnDropsABomb) {
  Game game(true);
  SpaceInvadersState s = quiet(6);
  s.aliens = {0, static_cast<uint16_t>(bit(4) | bit(1)), bit(4)};
  s.bomb_timer = 10;
  game.set_state(s);
  for (int step = 1; step < 10; ++step) game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kEnemyBullet), "");
  game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kEnemyBullet), "4,2");
  for (int step = 0; step < 10; ++step) game.advance(PixelMove::kNone, any_rng);
  EXPECT_EQ(cells(game, Game::kEnemyBullet), "4,2") << "the first has left, the second is there";
  s.aliens = {bit(4) | bit(8)};
  s.bomb_timer = 1;
  play(game, s);
  EXPECT_EQ(cells(game, Game::kEnemyBullet), "4,0") << "the left one of two";
}

TEST(SpaceInvaders, AnAlienAtTheGroundOrOnTheCannonEndsTheEpisode) {
  Game game(true);
  SpaceInvadersState s = quiet(4);
  s.aliens = {};
  s.aliens[9] = bit(0);
  EXPECT_FALSE(play(game, s).terminated);
  s.move_timer = 1;
  EXPECT_TRUE(play(game, s).terminated) << "it would go down from there";
  s.aliens[9] = bit(5);
  EXPECT_TRUE(play(game, s).terminated) << "it walks into the cannon";
  s.move_timer = kNever;
  EXPECT_TRUE(play(game, s, PixelMove::kRight).terminated) << "the cannon drives into it";
  s.aliens[8] = bit(0), s.aliens[9] = 0;
  s.move_timer = 1;
  EXPECT_FALSE(play(game, s).terminated);
}

TEST(SpaceInvaders, AClearedWaveIsFollowedByAnotherWithRampAQuickerOne) {
  for (const bool ramp : {true, false}) {
    Game game(ramp);
    Game fresh(ramp);
    fresh.start(any_rng);
    int expected = 12;
    for (int wave = 0; wave < 8; ++wave) {
      SpaceInvadersState s = quiet(9);
      s.shots[1] = bit(0);
      s.move_interval = expected;
      s.direction = 1;
      EXPECT_EQ(play(game, s).reward, 1);
      if (ramp) expected = std::max(6, expected - 1);
      EXPECT_EQ(game.state().move_interval, expected);
      EXPECT_EQ(game.state().move_timer, expected);
      EXPECT_EQ(game.state().aliens, fresh.state().aliens);
      EXPECT_EQ(game.state().direction, -1);
    }
  }
}

}  // namespace
}  // namespace parl
