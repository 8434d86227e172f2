// Seaquest on 10 x 10 cells, after MinAtar's description (Young & Tian 2019): a submarine of two cells shoots fish and
// enemy submarines (+1 each), collects divers, and must surface with at least one before its oxygen is used up. With
// all six divers aboard it gets +1 for every cell of the oxygen gauge. With ramp every surfacing makes it harder.
#pragma once

#include "parl/env_pixel/pixel_game.h"

namespace parl {

// Up to N things, in the order in which they came.
template <typename T, size_t N>
struct PixelFlock {
  std::array<T, N> items{};
  uint32_t count = 0;

  T* begin() { return items.data(); }
  T* end() { return items.data() + count; }
  const T* begin() const { return items.data(); }
  const T* end() const { return items.data() + count; }
  bool full() const { return count == N; }
  void add(const T& item) {
    if (!full()) items[count++] = item;
  }
  // How many went.
  template <typename Predicate>
  int remove_if(Predicate predicate) {
    const auto kept = static_cast<uint32_t>(std::remove_if(begin(), end(), predicate) - begin());
    const auto gone = static_cast<int>(count - kept);
    count = kept;
    return gone;
  }
};

struct SeaquestState {
  struct Swimmer {  // a fish, an enemy submarine or a diver
    int x = 0, y = 0, direction = 1;
    int move_timer = 1;
    int reload = 10;  // of a submarine
  };
  struct Bullet {
    int x = 0, y = 0, direction = 1;
  };
  int x = 5, y = 0;   // the front cell; the back cell is at x - direction
  int direction = 1;  // 1: the front is to the right
  int reload = 0;
  int oxygen = 200;
  int divers_aboard = 0;
  int at_surface = 1;
  PixelFlock<Swimmer, 32> fish, subs, divers;
  PixelFlock<Bullet, 16> friendly_bullets;
  PixelFlock<Bullet, 64> enemy_bullets;
  int enemy_interval = 20, enemy_timer = 20;  // steps between arrivals; until the next
  int diver_timer = 30;
  int move_interval = 5;  // steps between an enemy's moves
  int ramps = 0;
};

class SeaquestGame final : public PixelGameOf<SeaquestState> {
 public:
  enum Channel {
    kSubFront,
    kSubBack,
    kFriendlyBullet,
    kTrail,
    kEnemyBullet,
    kEnemyFish,
    kEnemySub,
    kOxygenGauge,
    kDiverGauge,
    kDiver
  };
  static constexpr int kFullOxygen = 200, kMaxDivers = 6;
  explicit SeaquestGame(bool ramp) : ramp_(ramp) {}
  const PixelGameInfo& info() const override;
  void start(CounterRng& rng) override;
  PixelOutcome advance(PixelMove move, CounterRng& rng) override;
  void draw(PixelBoard& board) const override;

 private:
  using Swimmer = SeaquestState::Swimmer;
  using Bullet = SeaquestState::Bullet;
  bool plausible(const SeaquestState& state) const override;
  template <typename Thing>
  bool is_at_front(const Thing& thing) const {
    return thing.x == state_.x && thing.y == state_.y;
  }
  void spawn(CounterRng& rng);
  void act(PixelMove move);
  int strike();
  void move_divers();
  bool move_enemies();
  bool move_enemy_bullets();
  bool breathe(PixelOutcome& outcome);
  float surface();
  int oxygen_cells() const { return state_.oxygen * 10 / kFullOxygen; }
  const bool ramp_;
};

}  // namespace parl
