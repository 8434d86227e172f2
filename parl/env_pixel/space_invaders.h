// Space Invaders on 10 x 10 cells, after MinAtar's description (Young & Tian 2019): a cannon in the bottom row against
// a block of aliens, +1 for each. The fewer are left the faster they move; a cleared wave is followed by another, with
// ramp by a quicker one. A bomb or an alien that reaches the cannon ends the episode, so does an alien at the ground.
#pragma once

#include "parl/env_pixel/pixel_game.h"

namespace parl {

struct SpaceInvadersState {
  using Rows = std::array<uint16_t, 10>;  // bit x of element y
  int x = 5;
  int reload = 0;  // steps until the cannon can fire again
  Rows shots{}, bombs{}, aliens{};
  int direction = -1;                       // of the aliens
  int move_interval = 12, move_timer = 12;  // steps between the moves of a full block; until the next
  int bomb_timer = 10;
};

class SpaceInvadersGame final : public PixelGameOf<SpaceInvadersState> {
 public:
  enum Channel { kCannon, kAlien, kAlienLeft, kAlienRight, kFriendlyBullet, kEnemyBullet };
  explicit SpaceInvadersGame(bool ramp) : ramp_(ramp) {}
  const PixelGameInfo& info() const override;
  void start(CounterRng& rng) override;
  PixelOutcome advance(PixelMove move, CounterRng& rng) override;
  void draw(PixelBoard& board) const override;

 private:
  bool plausible(const SpaceInvadersState& state) const override;
  int alien_count() const;
  bool is_in_cannon(const SpaceInvadersState::Rows& rows) const { return (rows[9] >> state_.x & 1) != 0; }
  void act(PixelMove move);
  int strike();
  bool march();
  void drop_bomb();
  void new_wave();
  const bool ramp_;
};

}  // namespace parl
