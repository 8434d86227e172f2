// The settings of an Atari environment: a preset's, then what the arguments change. A value; copy freely.
#pragma once

#include <string>
#include <vector>

#include "parl/env/registry.h"

namespace parl {

struct AtariOptions {
  std::string preset = "deepmind";
  bool evaluation = false;            // full games, raw reward; see atari_env.h
  int noops_min = 1, noops_max = 30;  // emulator frames without action at the start of a game (0, 0: none)
  double sticky = 0;                  // per emulator frame: probability that the last action is played instead
  bool all_actions = false;           // all 18, or the game's minimal set
  bool life_loss_ends = true;         // a lost life ends the episode, not the game
  bool fire_reset = true;             // FIRE and action 2 after a reset, where the game has FIRE
  bool sign_reward = true;            // reward to learn from: sign of the sum over the skipped frames
  bool pool_max = true;               // grey = maximum of the last two frames played, or the last frame alone
  int size = 84;                      // observation: size x size x stack
  int stack = 4;
  int frame_skip = 4;              // emulator frames per agent step
  int max_frames = 108000;         // emulator frames of a game until truncation; 0: no cap
  int mode = -1, difficulty = -1;  // -1: the game's own
};

// deepmind | parl | v5 | machado.
const std::vector<std::string>& atari_presets();
AtariOptions atari_preset(const std::string& name);  // unknown: an error with the near names

// Every argument of the family with its default and help.
std::vector<EnvOption> atari_option_list();

// Throws on values out of range, naming option, value and range. Unknown names are the registry's to refuse.
AtariOptions parse_atari_options(const EnvArgs& args, EnvMode mode);

// One line with everything that changes results.
std::string atari_contract(const std::string& game, const AtariOptions& options, int actions, bool has_fire);

}  // namespace parl
