// PixelGame: the rules of one game on a small board of cells. PixelEnv (pixel_env.h) makes an environment of it.
//
// A game knows nothing of seeds, sticky actions, time limits or pictures. It draws from the generator it is given and
// from nothing else, keeps all that it knows in one trivially copyable State, and says what is on the board by
// switching cells of its channels on. Columns x count from the left, rows y from the top.
// A new game: derive from PixelGameOf<YourState>, fill a PixelGameInfo, add it to the list in pixel.cc.
// Thread rule: one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "parl/core/check.h"
#include "parl/core/rng.h"

namespace parl {

enum class PixelMove : uint8_t { kNone, kLeft, kUp, kRight, kDown, kFire };  // in the order of the action indices
inline constexpr int kPixelMoves = 6;
const char* pixel_move_name(PixelMove move);

// -1, 0 or 1.
inline int sideways(PixelMove move) { return (move == PixelMove::kRight) - (move == PixelMove::kLeft); }
inline int downwards(PixelMove move) { return (move == PixelMove::kDown) - (move == PixelMove::kUp); }

struct PixelChannel {
  const char* name;
  std::array<uint8_t, 3> rgb;
  bool behind = false;  // pictures show every other channel of the same cell before it
};

struct PixelGameInfo {
  const char* name;
  const char* summary;
  int height = 10, width = 10;
  std::vector<PixelChannel> channels;
  std::vector<PixelMove> moves;  // those that do something, kNone included, in the order of the enum
  bool ramps = false;            // grows harder with time, unless told not to
  double sticky = 0.1;           // default probability that the last move is repeated
  int64_t max_steps = 10'000;    // default time limit; 0: none
};

// The planes of an observation, uint8 [height, width, channels]. A cell that is on is 255: pixel / 255, which is what
// networks read, is 0 or 1.
class PixelBoard {
 public:
  PixelBoard(const PixelGameInfo& info, std::span<std::byte> planes);  // switches every cell off
  // Cells outside the board are left out.
  void set(int channel, int x, int y) {
    if (x < 0 || x >= width_ || y < 0 || y >= height_) return;
    planes_[static_cast<size_t>((y * width_ + x) * channels_ + channel)] = std::byte{255};
  }
  // Column x of row y for every bit x of `row`.
  void set_row(int channel, int y, uint32_t row) {
    for (; row != 0; row &= row - 1) set(channel, __builtin_ctz(row), y);
  }

 private:
  int height_, width_, channels_;
  std::span<std::byte> planes_;
};

struct PixelOutcome {
  float reward = 0;
  bool terminated = false;
};

class PixelGame {
 public:
  virtual ~PixelGame() = default;
  virtual const PixelGameInfo& info() const = 0;
  virtual void start(CounterRng& rng) = 0;
  virtual PixelOutcome advance(PixelMove move, CounterRng& rng) = 0;
  virtual void draw(PixelBoard& board) const = 0;

  virtual std::span<const std::byte> state_bytes() const = 0;
  // Throws, and keeps the state there was, unless the bytes are a state of this game.
  virtual void set_state_bytes(std::span<const std::byte> bytes) = 0;
};

template <typename State>
class PixelGameOf : public PixelGame {
 public:
  static_assert(std::is_trivially_copyable_v<State>);
  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

  std::span<const std::byte> state_bytes() const final { return std::as_bytes(std::span(&state_, 1)); }
  void set_state_bytes(std::span<const std::byte> bytes) final {
    PARL_CHECK_EQ(bytes.size(), sizeof(State), "this state is not one of the game '{}'", info().name);
    State given;
    std::memcpy(&given, bytes.data(), sizeof(State));
    PARL_CHECK(plausible(given), "this state of the game '{}' is damaged", info().name);
    state_ = given;
  }

 protected:
  // Whether every number is one that advance() and draw() can work with.
  virtual bool plausible(const State& state) const = 0;
  State state_{};
};

// One of `count` steps is due: counts `timer` down, and sets it to `interval` again.
inline bool is_due(int& timer, int interval) {
  if (--timer > 0) return false;
  timer = interval;
  return true;
}

inline bool is_on_board(int x, int y) { return x >= 0 && x < 10 && y >= 0 && y < 10; }

}  // namespace parl
