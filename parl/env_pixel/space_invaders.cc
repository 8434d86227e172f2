#include "parl/env_pixel/space_invaders.h"

#include <bit>

namespace parl {
namespace {

using Rows = SpaceInvadersState::Rows;

constexpr int kReload = 5, kBombInterval = 10, kQuickestWave = 6;
constexpr uint16_t kBlock = 0b0011111100, kLeftEdge = 1, kRightEdge = 1 << 9;  // columns 2..7; bit x is column x

void rise(Rows& rows) {
  std::rotate(rows.begin(), rows.begin() + 1, rows.end());
  rows.back() = 0;
}

void fall(Rows& rows) {
  std::rotate(rows.begin(), rows.end() - 1, rows.end());
  rows.front() = 0;
}

uint16_t all_columns(const Rows& rows) {
  uint16_t columns = 0;
  for (const uint16_t row : rows) columns |= row;
  return columns;
}

}  // namespace

const PixelGameInfo& SpaceInvadersGame::info() const {
  static const PixelGameInfo kInfo{
      .name = "space_invaders",
      .summary = "shoot down waves of aliens",
      .channels = {{"cannon", {90, 200, 120}},
                   {"alien", {220, 80, 80}},
                   {"alien_left", {200, 110, 60}},
                   {"alien_right", {170, 80, 200}},
                   {"friendly_bullet", {255, 255, 255}},
                   {"enemy_bullet", {250, 210, 80}}},
      .moves = {PixelMove::kNone, PixelMove::kLeft, PixelMove::kRight, PixelMove::kFire},
      .ramps = true,
  };
  return kInfo;
}

void SpaceInvadersGame::start(CounterRng&) {
  state_ = {};
  new_wave();
}

void SpaceInvadersGame::new_wave() {
  state_.aliens = {kBlock, kBlock, kBlock, kBlock};
  state_.direction = -1;
  state_.move_timer = state_.move_interval;
}

int SpaceInvadersGame::alien_count() const {
  int count = 0;
  for (const uint16_t row : state_.aliens) count += std::popcount(row);
  return count;
}

void SpaceInvadersGame::act(PixelMove move) {
  SpaceInvadersState& s = state_;
  s.x = std::clamp(s.x + sideways(move), 0, 9);
  if (s.reload > 0) --s.reload;
  if (move == PixelMove::kFire && s.reload == 0) {
    s.shots[9] |= static_cast<uint16_t>(1u << s.x);
    s.reload = kReload;
  }
}

// Aliens and bullets in one cell leave together; the number of aliens.
int SpaceInvadersGame::strike() {
  int count = 0;
  for (size_t y = 0; y < 10; ++y) {
    const auto both = static_cast<uint16_t>(state_.shots[y] & state_.aliens[y]);
    count += std::popcount(both);
    state_.shots[y] &= static_cast<uint16_t>(~both);
    state_.aliens[y] &= static_cast<uint16_t>(~both);
  }
  return count;
}

// One move of all aliens; at the edge down, and from then on the other way. True when one stands on the ground already.
bool SpaceInvadersGame::march() {
  SpaceInvadersState& s = state_;
  const bool at_edge = (all_columns(s.aliens) & (s.direction < 0 ? kLeftEdge : kRightEdge)) != 0;
  if (!at_edge) {
    for (uint16_t& row : s.aliens) row = static_cast<uint16_t>(s.direction < 0 ? row >> 1 : row << 1);
    return false;
  }
  s.direction = -s.direction;
  if (s.aliens[9] != 0) return true;
  fall(s.aliens);
  return false;
}

// From the lowest alien of the column nearest to the cannon, the left one of two.
void SpaceInvadersGame::drop_bomb() {
  SpaceInvadersState& s = state_;
  const uint16_t columns = all_columns(s.aliens);
  for (int distance = 0; distance < 10; ++distance) {
    for (const int x : {s.x - distance, s.x + distance}) {
      if (x < 0 || x > 9 || (columns >> x & 1) == 0) continue;
      size_t y = 9;
      while ((s.aliens[y] >> x & 1) == 0) --y;
      s.bombs[y] |= static_cast<uint16_t>(1u << x);
      return;
    }
  }
}

PixelOutcome SpaceInvadersGame::advance(PixelMove move, CounterRng&) {
  SpaceInvadersState& s = state_;
  PixelOutcome outcome;
  act(move);
  rise(s.shots);
  int struck = strike();
  fall(s.bombs);
  outcome.terminated = is_in_cannon(s.bombs) || is_in_cannon(s.aliens);
  if (is_due(s.move_timer, std::min(alien_count(), s.move_interval))) {
    outcome.terminated |= march();
    struck += strike();
    outcome.terminated |= is_in_cannon(s.aliens);
  }
  if (is_due(s.bomb_timer, kBombInterval)) drop_bomb();
  outcome.reward = static_cast<float>(struck);
  if (alien_count() == 0) {
    if (ramp_ && s.move_interval > kQuickestWave) --s.move_interval;
    new_wave();
  }
  return outcome;
}

void SpaceInvadersGame::draw(PixelBoard& board) const {
  board.set(kCannon, state_.x, 9);
  for (int y = 0; y < 10; ++y) {
    const auto row = static_cast<size_t>(y);
    board.set_row(kAlien, y, state_.aliens[row]);
    board.set_row(state_.direction < 0 ? kAlienLeft : kAlienRight, y, state_.aliens[row]);
    board.set_row(kFriendlyBullet, y, state_.shots[row]);
    board.set_row(kEnemyBullet, y, state_.bombs[row]);
  }
}

bool SpaceInvadersGame::plausible(const SpaceInvadersState& s) const {
  const auto fits = [](const Rows& rows) { return all_columns(rows) < 1 << 10; };
  return is_on_board(s.x, 9) && fits(s.shots) && fits(s.bombs) && fits(s.aliens);
}

}  // namespace parl
