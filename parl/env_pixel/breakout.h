// Breakout on 10 x 10 cells, after MinAtar's description (Young & Tian 2019): a ball that travels along diagonals, a
// paddle of one cell in the bottom row, three rows of bricks below the empty top row, +1 for each. A ball that reaches
// the bottom row elsewhere ends the episode.
#pragma once

#include "parl/env_pixel/pixel_game.h"

namespace parl {

struct BreakoutState {
  int ball_x = 0, ball_y = 0;
  int dx = 1, dy = 1;            // the next step, each -1 or 1
  int trail_x = 0, trail_y = 0;  // where the ball was before
  int paddle = 0;
  std::array<uint16_t, 3> bricks{};  // bit x of element i: a brick in column x of row 1 + i
  int in_bricks = 0;                 // 1: the ball met a brick in the latest step, and breaks none in the next
};

class BreakoutGame final : public PixelGameOf<BreakoutState> {
 public:
  enum Channel { kPaddle, kBall, kTrail, kBrick };
  const PixelGameInfo& info() const override;
  void start(CounterRng& rng) override;
  PixelOutcome advance(PixelMove move, CounterRng& rng) override;
  void draw(PixelBoard& board) const override;

 private:
  bool plausible(const BreakoutState& state) const override;
  bool has_brick(int x, int y) const;
  bool any_brick() const { return (state_.bricks[0] | state_.bricks[1] | state_.bricks[2]) != 0; }
  void build_wall() { state_.bricks.fill(0x3FF); }
};

}  // namespace parl
