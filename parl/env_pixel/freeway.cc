#include "parl/env_pixel/freeway.h"

namespace parl {
namespace {

constexpr int kTop = 0, kBottom = 9, kFirstLane = 1, kWalkInterval = 3;

}  // namespace

const PixelGameInfo& FreewayGame::info() const {
  static const PixelGameInfo kInfo{
      .name = "freeway",
      .summary = "cross a road as often as there is time for",
      .channels = {{"chicken", {255, 255, 255}},
                   {"car", {220, 80, 80}},
                   {"speed1", {70, 110, 230}, true},
                   {"speed2", {70, 140, 200}, true},
                   {"speed3", {70, 160, 160}, true},
                   {"speed4", {70, 170, 120}, true},
                   {"speed5", {80, 180, 80}, true}},
      .moves = {PixelMove::kNone, PixelMove::kUp, PixelMove::kDown},
      .max_steps = 2500,
  };
  return kInfo;
}

void FreewayGame::start(CounterRng& rng) {
  state_ = {};
  for (FreewayState::Car& car : state_.cars) car.x = static_cast<int>(rng.below(10));
  new_traffic(rng);
}

// New directions and speeds; the cars stay where they are.
void FreewayGame::new_traffic(CounterRng& rng) {
  for (FreewayState::Car& car : state_.cars) {
    car.direction = rng.below(2) == 0 ? -1 : 1;
    car.interval = car.timer = 1 + static_cast<int>(rng.below(5));
  }
}

bool FreewayGame::is_hit() const {
  const int lane = state_.y - kFirstLane;
  return lane >= 0 && lane < 8 && state_.cars[static_cast<size_t>(lane)].x == kColumn;
}

PixelOutcome FreewayGame::advance(PixelMove move, CounterRng& rng) {
  FreewayState& s = state_;
  PixelOutcome outcome;
  if (s.cooldown > 0) --s.cooldown;
  if (s.cooldown == 0 && downwards(move) != 0) {
    s.y = std::clamp(s.y + downwards(move), kTop, kBottom);
    s.cooldown = kWalkInterval;
  }
  if (is_hit()) s.y = kBottom;
  if (s.y == kTop) {
    outcome.reward = 1;
    s.y = kBottom;
    new_traffic(rng);
  }
  for (FreewayState::Car& car : s.cars) {
    if (is_due(car.timer, car.interval)) car.x = (car.x + car.direction + 10) % 10;
  }
  if (is_hit()) s.y = kBottom;
  return outcome;
}

void FreewayGame::draw(PixelBoard& board) const {
  board.set(kChicken, kColumn, state_.y);
  for (int i = 0; i < 8; ++i) {
    const FreewayState::Car& car = state_.cars[static_cast<size_t>(i)];
    board.set(kCar, car.x, kFirstLane + i);
    board.set(kSpeed1 + car.interval - 1, (car.x - car.direction + 10) % 10, kFirstLane + i);
  }
}

bool FreewayGame::plausible(const FreewayState& s) const {
  return is_on_board(kColumn, s.y) && std::all_of(s.cars.begin(), s.cars.end(), [](const FreewayState::Car& car) {
           return is_on_board(car.x, 0) && (car.direction == 1 || car.direction == -1) && car.interval >= 1 &&
                  car.interval <= 5;
         });
}

}  // namespace parl
