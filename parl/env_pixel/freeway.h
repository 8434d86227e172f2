// Freeway on 10 x 10 cells, after MinAtar's description (Young & Tian 2019): a chicken crosses eight lanes of traffic;
// +1 at the top, from where it starts again at the bottom, against new speeds. A car throws it back to the bottom.
#pragma once

#include "parl/env_pixel/pixel_game.h"

namespace parl {

struct FreewayState {
  struct Car {  // in row 1 + its number
    int x = 0, direction = 1;
    int interval = 1, timer = 1;  // steps between its moves, 1..5; until the next
  };
  int y = 9;         // the chicken walks in column 4
  int cooldown = 0;  // steps until it can walk again
  std::array<Car, 8> cars{};
};

class FreewayGame final : public PixelGameOf<FreewayState> {
 public:
  enum Channel { kChicken, kCar, kSpeed1 };  // kSpeed1 + i: the trail of a car that moves every i + 1 steps
  static constexpr int kColumn = 4;
  const PixelGameInfo& info() const override;
  void start(CounterRng& rng) override;
  PixelOutcome advance(PixelMove move, CounterRng& rng) override;
  void draw(PixelBoard& board) const override;

 private:
  bool plausible(const FreewayState& state) const override;
  void new_traffic(CounterRng& rng);
  bool is_hit() const;
};

}  // namespace parl
