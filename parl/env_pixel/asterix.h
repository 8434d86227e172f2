// Asterix on 10 x 10 cells, after MinAtar's description (Young & Tian 2019): treasure (+1) and enemies (the end) cross
// the eight lanes between the top and the bottom row, one at a time in each. With ramp they come and move ever faster.
#pragma once

#include "parl/env_pixel/pixel_game.h"

namespace parl {

struct AsterixState {
  struct Lane {  // row 1 + its number
    int present = 0;
    int x = 0, direction = 1;
    int gold = 0;
  };
  int x = 5, y = 5;
  std::array<Lane, 8> lanes{};
  int spawn_interval = 10, spawn_timer = 10;  // steps between arrivals; until the next
  int move_interval = 5, move_timer = 5;      // steps between moves; until the next
  int ramp_timer = 100, ramps = 0;
};

class AsterixGame final : public PixelGameOf<AsterixState> {
 public:
  enum Channel { kPlayer, kEnemy, kTrail, kGold };
  explicit AsterixGame(bool ramp) : ramp_(ramp) {}
  const PixelGameInfo& info() const override;
  void start(CounterRng& rng) override;
  PixelOutcome advance(PixelMove move, CounterRng& rng) override;
  void draw(PixelBoard& board) const override;

 private:
  bool plausible(const AsterixState& state) const override;
  void spawn(CounterRng& rng);
  void touch(PixelOutcome& outcome);
  void ramp_up();
  const bool ramp_;
};

}  // namespace parl
