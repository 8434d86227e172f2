// PixelEnv: an environment around a PixelGame: actions, sticky actions, seeds, pictures, saved states.
//
// Observation: uint8 planes [height, width, channels] of 0 and 255, or with render = N a grey picture [N, N, 1] in
// which every channel has a level of its own. Sticky: before each step, with this probability, the move of the step
// before is made again instead of the one given (the first step repeats "none"). Time limits are TimeLimit's business.
// A seed starts the generator anew (CounterRng); all randomness of game and stickiness comes from it.
// Owns its game. Thread rule: one thread at a time. Errors: parl::Error.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parl/env/env.h"
#include "parl/env_pixel/pixel_game.h"

namespace parl {

struct PixelOptions {
  double sticky = 0;         // [0, 1)
  bool all_actions = false;  // all six moves, whether the game uses them or not
  int render = 0;            // 0: planes; N: a grey picture of N x N
};

class PixelEnv final : public Env {
 public:
  PixelEnv(std::unique_ptr<PixelGame> game, PixelOptions options, const std::string& ramp_note = "");

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override;
  StepResult step(const Action& action, std::span<std::byte> obs) override;
  void render(Image& out) override;  // 32 pixels a cell, in the channels' colours on black
  bool can_save_state() const override { return true; }
  std::vector<std::byte> save_state() const override;
  void load_state(std::span<const std::byte> state) override;

  PixelGame& game() { return *game_; }

 private:
  void observe(std::span<std::byte> obs);

  const std::unique_ptr<PixelGame> game_;
  const PixelOptions options_;
  std::vector<PixelMove> moves_;  // by action index
  EnvSpec spec_;
  size_t obs_bytes_ = 0;
  CounterRng rng_{0, 0};
  PixelMove last_ = PixelMove::kNone;
  bool running_ = false;
  std::vector<std::byte> planes_;  // for pictures
  std::vector<uint8_t> top_;       // for pictures: what each cell shows (internal/picture.h)
  std::vector<uint8_t> greys_;     // and its level
};

}  // namespace parl
