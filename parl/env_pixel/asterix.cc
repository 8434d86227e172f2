#include "parl/env_pixel/asterix.h"

namespace parl {
namespace {

constexpr int kTop = 1, kBottom = 8, kRampInterval = 100;

}  // namespace

const PixelGameInfo& AsterixGame::info() const {
  static const PixelGameInfo kInfo{
      .name = "asterix",
      .summary = "collect treasure, keep away from enemies",
      .channels = {{"player", {90, 200, 120}},
                   {"enemy", {220, 80, 80}},
                   {"trail", {95, 95, 110}, true},
                   {"gold", {250, 210, 80}}},
      .moves = {PixelMove::kNone, PixelMove::kLeft, PixelMove::kUp, PixelMove::kRight, PixelMove::kDown},
      .ramps = true,
  };
  return kInfo;
}

void AsterixGame::start(CounterRng&) { state_ = {}; }

// Into a random lane that is free, from a random side; every third is treasure.
void AsterixGame::spawn(CounterRng& rng) {
  std::array<int, 8> free{};
  uint32_t count = 0;
  for (int i = 0; i < 8; ++i) {
    if (state_.lanes[static_cast<size_t>(i)].present == 0) free[count++] = i;
  }
  const bool rightwards = rng.below(2) == 0, gold = rng.below(3) == 0;
  if (count == 0) return;
  AsterixState::Lane& lane = state_.lanes[static_cast<size_t>(free[rng.below(count)])];
  lane.present = 1;
  lane.x = rightwards ? 0 : 9;
  lane.direction = rightwards ? 1 : -1;
  lane.gold = gold ? 1 : 0;
}

// What shares the player's cell is collected, or ends the episode.
void AsterixGame::touch(PixelOutcome& outcome) {
  AsterixState::Lane& lane = state_.lanes[static_cast<size_t>(state_.y - kTop)];
  if (lane.present == 0 || lane.x != state_.x) return;
  if (lane.gold == 0) {
    outcome.terminated = true;
    return;
  }
  lane.present = 0;
  outcome.reward += 1;
}

// Arrivals one step quicker each time, moves every second time; neither below one step.
void AsterixGame::ramp_up() {
  AsterixState& s = state_;
  if (s.spawn_interval > 1) --s.spawn_interval;
  if (s.ramps % 2 == 1 && s.move_interval > 1) --s.move_interval;
  ++s.ramps;
}

PixelOutcome AsterixGame::advance(PixelMove move, CounterRng& rng) {
  AsterixState& s = state_;
  PixelOutcome outcome;
  if (is_due(s.spawn_timer, s.spawn_interval)) spawn(rng);
  s.x = std::clamp(s.x + sideways(move), 0, 9);
  s.y = std::clamp(s.y + downwards(move), kTop, kBottom);
  touch(outcome);
  if (is_due(s.move_timer, s.move_interval)) {
    for (AsterixState::Lane& lane : s.lanes) {
      if (lane.present == 0) continue;
      lane.x += lane.direction;
      if (lane.x < 0 || lane.x > 9) lane.present = 0;
    }
    touch(outcome);
  }
  if (ramp_ && is_due(s.ramp_timer, kRampInterval)) ramp_up();
  return outcome;
}

void AsterixGame::draw(PixelBoard& board) const {
  board.set(kPlayer, state_.x, state_.y);
  for (int i = 0; i < 8; ++i) {
    const AsterixState::Lane& lane = state_.lanes[static_cast<size_t>(i)];
    if (lane.present == 0) continue;
    board.set(lane.gold != 0 ? kGold : kEnemy, lane.x, kTop + i);
    board.set(kTrail, lane.x - lane.direction, kTop + i);
  }
}

bool AsterixGame::plausible(const AsterixState& s) const {
  return is_on_board(s.x, s.y) && s.y >= kTop && s.y <= kBottom &&
         std::all_of(s.lanes.begin(), s.lanes.end(),
                     [](const AsterixState::Lane& lane) { return is_on_board(lane.x, 0) || lane.present == 0; });
}

}  // namespace parl
