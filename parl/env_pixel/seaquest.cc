#include "parl/env_pixel/seaquest.h"

namespace parl {
namespace {

constexpr int kSurface = 0, kTop = 1, kBottom = 8, kGauges = 9;
constexpr int kReload = 5, kEnemyReload = 10, kDiverInterval = 30, kDiverMoveInterval = 5;
constexpr int kQuickestEnemies = 2;

template <typename Thing>
bool has_left(const Thing& thing) {
  return !is_on_board(thing.x, thing.y);
}

template <typename Flock>
bool swims_against(const Flock& flock, int y, int direction) {
  return std::any_of(flock.begin(), flock.end(), [&](const auto& s) { return s.y == y && s.direction != direction; });
}

}  // namespace

const PixelGameInfo& SeaquestGame::info() const {
  static const PixelGameInfo kInfo{
      .name = "seaquest",
      .summary = "rescue divers and shoot what attacks them",
      .channels = {{"sub_front", {90, 200, 120}},
                   {"sub_back", {60, 130, 80}},
                   {"friendly_bullet", {255, 255, 255}},
                   {"trail", {95, 95, 110}, true},
                   {"enemy_bullet", {250, 160, 60}},
                   {"enemy_fish", {220, 80, 80}},
                   {"enemy_sub", {170, 80, 200}},
                   {"oxygen_gauge", {80, 150, 230}, true},
                   {"diver_gauge", {250, 210, 80}},
                   {"diver", {240, 230, 160}}},
      .moves = {PixelMove::kNone, PixelMove::kLeft, PixelMove::kUp, PixelMove::kRight, PixelMove::kDown,
                PixelMove::kFire},
      .ramps = true,
  };
  return kInfo;
}

void SeaquestGame::start(CounterRng&) { state_ = {}; }

// Every third enemy is a submarine. None comes into a row where another swims the other way.
void SeaquestGame::spawn(CounterRng& rng) {
  SeaquestState& s = state_;
  const auto swimmer = [&](int interval) {
    const int direction = rng.below(2) == 0 ? 1 : -1, y = kTop + static_cast<int>(rng.below(8));
    return Swimmer{direction > 0 ? 0 : 9, y, direction, interval, kEnemyReload};
  };
  if (is_due(s.enemy_timer, s.enemy_interval)) {
    const bool is_sub = rng.below(3) == 0;
    const Swimmer enemy = swimmer(s.move_interval);
    if (!swims_against(s.fish, enemy.y, enemy.direction) && !swims_against(s.subs, enemy.y, enemy.direction)) {
      (is_sub ? s.subs : s.fish).add(enemy);
    }
  }
  if (is_due(s.diver_timer, kDiverInterval)) s.divers.add(swimmer(kDiverMoveInterval));
}

void SeaquestGame::act(PixelMove move) {
  SeaquestState& s = state_;
  if (s.reload > 0) --s.reload;
  if (move == PixelMove::kFire && s.reload == 0) {
    s.friendly_bullets.add({s.x, s.y, s.direction});
    s.reload = kReload;
  }
  if (sideways(move) != 0) s.direction = sideways(move);
  s.x = std::clamp(s.x + sideways(move), 0, 9);
  s.y = std::clamp(s.y + downwards(move), kSurface, kBottom);
}

// Enemies and our bullets in one cell leave together; the number of enemies.
int SeaquestGame::strike() {
  SeaquestState& s = state_;
  int count = 0;
  s.friendly_bullets.remove_if([&](const Bullet& bullet) {
    const auto is_struck = [&](const Swimmer& enemy) { return enemy.x == bullet.x && enemy.y == bullet.y; };
    const int struck = s.fish.remove_if(is_struck) + s.subs.remove_if(is_struck);
    count += struck;
    return struck > 0;
  });
  return count;
}

void SeaquestGame::move_divers() {
  SeaquestState& s = state_;
  const auto boards = [&](const Swimmer& diver) {
    if (!is_at_front(diver) || s.divers_aboard == kMaxDivers) return false;
    ++s.divers_aboard;
    return true;
  };
  s.divers.remove_if([&](Swimmer& diver) {
    if (boards(diver)) return true;
    if (!is_due(diver.move_timer, kDiverMoveInterval)) return false;
    diver.x += diver.direction;
    return has_left(diver) || boards(diver);
  });
}

// True when one touches the submarine's front.
bool SeaquestGame::move_enemies() {
  SeaquestState& s = state_;
  bool touched = false;
  const auto swims_off = [&](Swimmer& enemy) {
    touched |= is_at_front(enemy);
    if (!is_due(enemy.move_timer, s.move_interval)) return false;
    enemy.x += enemy.direction;
    touched |= is_at_front(enemy);
    return has_left(enemy);
  };
  s.fish.remove_if(swims_off);
  s.subs.remove_if([&](Swimmer& sub) {
    if (swims_off(sub)) return true;
    if (is_due(sub.reload, kEnemyReload)) s.enemy_bullets.add({sub.x, sub.y, sub.direction});
    return false;
  });
  return touched;
}

bool SeaquestGame::move_enemy_bullets() {
  bool touched = false;
  state_.enemy_bullets.remove_if([&](Bullet& bullet) {
    touched |= is_at_front(bullet);
    bullet.x += bullet.direction;
    touched |= is_at_front(bullet);
    return has_left(bullet);
  });
  return touched;
}

// Oxygen goes below the surface. Coming up without a diver, or running out of it, is the end: then true.
bool SeaquestGame::breathe(PixelOutcome& outcome) {
  SeaquestState& s = state_;
  if (s.y > kSurface) {
    s.at_surface = 0;
    return --s.oxygen <= 0;
  }
  if (s.at_surface != 0) return false;
  if (s.divers_aboard == 0) return true;
  outcome.reward += surface();
  return false;
}

float SeaquestGame::surface() {
  SeaquestState& s = state_;
  float reward = 0;
  if (s.divers_aboard == kMaxDivers) {
    reward = static_cast<float>(oxygen_cells());
    s.divers_aboard = 0;
  } else {
    --s.divers_aboard;
  }
  s.at_surface = 1;
  s.oxygen = kFullOxygen;
  if (ramp_) {
    if (s.enemy_interval > 1) --s.enemy_interval;
    if (s.ramps % 2 == 1 && s.move_interval > kQuickestEnemies) --s.move_interval;
    ++s.ramps;
  }
  return reward;
}

PixelOutcome SeaquestGame::advance(PixelMove move, CounterRng& rng) {
  SeaquestState& s = state_;
  PixelOutcome outcome;
  spawn(rng);
  act(move);
  s.friendly_bullets.remove_if([](Bullet& bullet) {
    bullet.x += bullet.direction;
    return has_left(bullet);
  });
  int struck = strike();
  move_divers();
  outcome.terminated |= move_enemies();
  struck += strike();
  outcome.terminated |= move_enemy_bullets();
  outcome.reward += static_cast<float>(struck);
  outcome.terminated |= breathe(outcome);
  return outcome;
}

void SeaquestGame::draw(PixelBoard& board) const {
  const SeaquestState& s = state_;
  board.set(kSubFront, s.x, s.y);
  board.set(kSubBack, s.x - s.direction, s.y);
  for (const Bullet& bullet : s.friendly_bullets) board.set(kFriendlyBullet, bullet.x, bullet.y);
  for (const Bullet& bullet : s.enemy_bullets) board.set(kEnemyBullet, bullet.x, bullet.y);
  const auto swimmers = [&](const auto& flock, int channel) {
    for (const Swimmer& swimmer : flock) {
      board.set(channel, swimmer.x, swimmer.y);
      board.set(kTrail, swimmer.x - swimmer.direction, swimmer.y);
    }
  };
  swimmers(s.fish, kEnemyFish);
  swimmers(s.subs, kEnemySub);
  swimmers(s.divers, kDiver);
  board.set_row(kOxygenGauge, kGauges, (1u << oxygen_cells()) - 1);
  board.set_row(kDiverGauge, kGauges, 0x3FFu & ~((1u << (10 - s.divers_aboard)) - 1));
}

bool SeaquestGame::plausible(const SeaquestState& s) const {
  return is_on_board(s.x, s.y) && s.y <= kBottom && (s.direction == 1 || s.direction == -1) && s.oxygen >= 0 &&
         s.oxygen <= kFullOxygen && s.divers_aboard >= 0 && s.divers_aboard <= kMaxDivers && s.fish.count <= 32 &&
         s.subs.count <= 32 && s.divers.count <= 32 && s.friendly_bullets.count <= 16 && s.enemy_bullets.count <= 64;
}

}  // namespace parl
