// Emulator: one console with one game in it, frame by frame. The only place that talks to the ALE.
//
// Sticky actions are drawn here, from the same generator in the same order as the ALE would (mt19937, two draws per
// frame), and the ALE itself runs without: the action it repeats is not part of the state that it saves, ours is.
// load(seed) gives the state of an ALE freshly loaded with that seed. Errors: parl::Error.
// Thread rule: one owner thread per object; objects are independent.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "parl/env/env.h"
#include "parl/env/state_io.h"

namespace parl {

class Emulator {
 public:
  struct Settings {
    std::string rom;  // an existing file
    double sticky = 0;
    int max_frames = 0;  // of a game; 0: no cap
    bool all_actions = false;
    int mode = -1, difficulty = -1;
  };

  explicit Emulator(const Settings& settings);
  ~Emulator();

  void load(uint32_t seed);  // as switched on: first game, generator seeded
  void restart();            // the next game
  int play(int action);      // one frame with action number `action` of actions(); returns the points won

  bool game_over() const;  // the game's own end
  bool capped() const;     // max_frames reached
  int lives() const;
  const std::vector<int>& actions() const { return actions_; }  // the ALE's action codes

  // The last frame and the one before it: palette indices, height() x width(), valid until the next play().
  int height() const { return height_; }
  int width() const { return width_; }
  const uint8_t* frame() const;
  const uint8_t* previous_frame() const;
  const std::array<uint8_t, 256>& grey_table() const { return grey_table_; }  // palette index -> grey
  void picture(Image& out) const;

  void save(StateWriter& out) const;
  void load_state(StateReader& in);

 private:
  struct Console;
  void save_console(StateWriter& out) const;
  void load_console(StateReader& in);

  const float sticky_;
  std::unique_ptr<Console> console_;
  std::vector<int> actions_;
  int height_ = 0, width_ = 0;
  std::array<uint8_t, 256> grey_table_{};
  std::mt19937 random_;
  int last_action_ = 0;                 // the action code that sticky repeats
  std::vector<std::byte> switched_on_;  // the console right after loading the ROM
};

}  // namespace parl
