#include "parl/env_pixel/catch.h"

namespace parl {

const PixelGameInfo& CatchGame::info() const {
  static const PixelGameInfo kInfo{.name = "catch",
                                   .summary = "catch a falling ball",
                                   .height = kRows,
                                   .width = kColumns,
                                   .channels = {{"ball_and_paddle", {255, 255, 255}}},
                                   .moves = {PixelMove::kNone, PixelMove::kLeft, PixelMove::kRight},
                                   .sticky = 0,
                                   .max_steps = 0};
  return kInfo;
}

void CatchGame::start(CounterRng& rng) {
  state_ = {};
  state_.ball_x = static_cast<int>(rng.below(kColumns));
  state_.paddle = kColumns / 2;
}

PixelOutcome CatchGame::advance(PixelMove move, CounterRng&) {
  CatchState& s = state_;
  s.paddle = std::clamp(s.paddle + sideways(move), 0, kColumns - 1);
  ++s.ball_y;
  if (s.ball_y < kRows - 1) return {};
  return {s.ball_x == s.paddle ? 1.0f : -1.0f, true};
}

void CatchGame::draw(PixelBoard& board) const {
  board.set(0, state_.ball_x, state_.ball_y);
  board.set(0, state_.paddle, kRows - 1);
}

bool CatchGame::plausible(const CatchState& s) const {
  return s.ball_x >= 0 && s.ball_x < kColumns && s.ball_y >= 0 && s.ball_y < kRows && s.paddle >= 0 &&
         s.paddle < kColumns;
}

}  // namespace parl
