// Catch, as in bsuite (Osband et al. 2020, arXiv 1908.03568): a ball falls from a random column of the top row, one row
// a step; the paddle in the bottom row catches it (+1) or not (-1). Nine steps, one channel for both.
#pragma once

#include "parl/env_pixel/pixel_game.h"

namespace parl {

struct CatchState {
  int ball_x = 0, ball_y = 0;
  int paddle = 0;
};

class CatchGame final : public PixelGameOf<CatchState> {
 public:
  static constexpr int kRows = 10, kColumns = 5;
  const PixelGameInfo& info() const override;
  void start(CounterRng& rng) override;
  PixelOutcome advance(PixelMove move, CounterRng& rng) override;
  void draw(PixelBoard& board) const override;

 private:
  bool plausible(const CatchState& state) const override;
};

}  // namespace parl
