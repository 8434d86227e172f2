#include "parl/env_pixel/breakout.h"

namespace parl {
namespace {

constexpr int kLast = 9;  // the last column, and the bottom row
constexpr int kFirstWallRow = 1;

}  // namespace

const PixelGameInfo& BreakoutGame::info() const {
  static const PixelGameInfo kInfo{
      .name = "breakout",
      .summary = "bounce a ball against a wall of bricks",
      .channels = {{"paddle", {90, 200, 120}},
                   {"ball", {255, 255, 255}},
                   {"trail", {95, 95, 110}, true},
                   {"brick", {220, 110, 70}}},
      .moves = {PixelMove::kNone, PixelMove::kLeft, PixelMove::kRight},
  };
  return kInfo;
}

void BreakoutGame::start(CounterRng& rng) {
  BreakoutState& s = state_;
  s = {};
  const bool from_left = rng.below(2) == 0;
  s.ball_x = s.trail_x = from_left ? 0 : kLast;
  s.ball_y = s.trail_y = 3;
  s.dx = from_left ? 1 : -1;
  s.dy = 1;
  s.paddle = 4;
  build_wall();
}

bool BreakoutGame::has_brick(int x, int y) const {
  const int row = y - kFirstWallRow;
  return row >= 0 && row < 3 && (state_.bricks[static_cast<size_t>(row)] >> x & 1) != 0;
}

PixelOutcome BreakoutGame::advance(PixelMove move, CounterRng&) {
  BreakoutState& s = state_;
  PixelOutcome outcome;
  s.paddle = std::clamp(s.paddle + sideways(move), 0, kLast);
  const int from_x = s.ball_x, from_y = s.ball_y;
  int x = from_x + s.dx, y = from_y + s.dy;
  if (x < 0 || x > kLast) {
    s.dx = -s.dx;
    x = from_x;
  }
  bool meets_brick = false;
  if (y < 0) {
    s.dy = 1;
    y = 0;
  } else if (has_brick(x, y)) {
    meets_brick = true;
    if (s.in_bricks == 0) {
      s.bricks[static_cast<size_t>(y - kFirstWallRow)] &= static_cast<uint16_t>(~(1u << x));
      outcome.reward = 1;
      s.dy = -s.dy;
      y = from_y;
    }
  } else if (y == kLast) {
    if (!any_brick()) build_wall();
    if (from_x == s.paddle) {  // straight onto it
      s.dy = -1;
      y = from_y;
    } else if (x == s.paddle) {  // on its near side: back to where it came from
      s.dx = -s.dx;
      s.dy = -1;
      y = from_y;
    } else {
      outcome.terminated = true;
    }
  }
  s.in_bricks = meets_brick ? 1 : 0;
  s.trail_x = from_x, s.trail_y = from_y;
  s.ball_x = x, s.ball_y = y;
  return outcome;
}

void BreakoutGame::draw(PixelBoard& board) const {
  board.set(kPaddle, state_.paddle, kLast);
  board.set(kBall, state_.ball_x, state_.ball_y);
  board.set(kTrail, state_.trail_x, state_.trail_y);
  for (int i = 0; i < 3; ++i) board.set_row(kBrick, kFirstWallRow + i, state_.bricks[static_cast<size_t>(i)]);
}

bool BreakoutGame::plausible(const BreakoutState& s) const {
  const auto is_step = [](int d) { return d == 1 || d == -1; };
  return is_on_board(s.ball_x, s.ball_y) && is_on_board(s.trail_x, s.trail_y) && is_on_board(s.paddle, 0) &&
         is_step(s.dx) && is_step(s.dy);
}

}  // namespace parl
