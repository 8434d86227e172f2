// AtariEnv: one Atari game with the usual pre-processing, as one Env. (docs/atari.md has the contract and the presets.)
//
// Step: the action is played for frame_skip frames (fewer when the game ends), rewards are summed. Grey screens, the
//   maximum of the last two frames really played, area resize, and the newest picture as the last channel:
//   uint8 [size, size, stack], rows then columns.
// Ends: game over is terminated; max_frames is truncated; a lost life (lives left) is terminated too where life_loss
//   is `end`. The reset after a lost life does not restart the game: it plays one step without action, then FIRE and
//   action 2 where the game has FIRE. A reset at any other time starts the next game: no-ops, then FIRE and action 2.
//   After every reset the stack holds the reset picture only.
// Evaluation: reward is raw, and after a lost life the same sequence is played inside step(), the episode goes on, the
//   stack is filled anew; the points won in the sequence belong to the step.
// Episodes are recorded per full game: raw score, all points counted, whoever played them; length in step() calls.
//   A game given up by reset() is not recorded.
// reset(seed): the console as just switched on, then the first game; all generators seeded.
// State: the console, both generators, the stack and the counters. No allocation per step.
// (Mnih et al. 2015; Machado et al. 2018, arXiv 1709.06009; the life-loss sequence is OpenAI Baselines'.)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parl/core/rng.h"
#include "parl/env/env.h"
#include "parl/env_atari/atari_options.h"
#include "parl/env_atari/emulator.h"
#include "parl/env_atari/grey.h"

namespace parl {

class AtariEnv final : public Env {
 public:
  AtariEnv(const std::string& game, const AtariOptions& options);

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override;
  StepResult step(const Action& action, std::span<std::byte> obs) override;

  bool records_episodes() const override { return true; }
  void take_episodes(std::vector<Episode>& out) override;
  void render(Image& out) override { emulator_.picture(out); }

  bool can_save_state() const override { return true; }
  std::vector<std::byte> save_state() const override;
  void load_state(std::span<const std::byte> state) override;

  // For looking inside, as the golden tests do.
  int lives() const { return emulator_.lives(); }
  int frame_height() const { return emulator_.height(); }
  double step_score() const { return step_score_; }  // points of the last step, unclipped
  void grey_frames(std::vector<uint8_t>& last, std::vector<uint8_t>& previous) const;

 private:
  enum class After { kGameOver, kLifeLost };

  void play(int action);  // one agent step; when the game ends in it, records the game
  bool over() const { return emulator_.game_over() || emulator_.capped(); }
  bool life_lost() const;         // fewer lives than lives_, but some
  void start_game(bool restart);  // with its no-ops
  void play_in_sequence(int action, bool next_game);
  void serve(bool after_life, bool next_game);  // the steps that the contract plays after a reset or a lost life
  void see(bool both_frames);                   // the last frames as a small grey picture, into picture_
  void fill_stack(std::span<std::byte> obs);
  void push_stack(std::span<std::byte> obs);

  const AtariOptions options_;
  Emulator emulator_;
  AreaResize resize_;
  EnvSpec spec_;
  bool has_fire_ = false;
  CounterRng noop_random_{0, 0};
  std::vector<uint8_t> grey_, picture_;
  std::vector<uint8_t> stack_;  // the observation as the caller sees it

  bool running_ = false;            // a step is allowed
  After after_ = After::kGameOver;  // what the next reset begins with
  bool one_frame_ = true;           // nothing but no-ops since the game began: its picture is a single frame
  int lives_ = 0;
  double score_ = 0, step_score_ = 0;
  int64_t length_ = 0;
  std::vector<Episode> finished_;
};

}  // namespace parl
