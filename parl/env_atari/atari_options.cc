#include "parl/env_atari/atari_options.h"

#include <algorithm>
#include <charconv>

namespace parl {
namespace {

int int_in(const EnvArgs& args, const std::string& name, int default_value, int low, int high) {
  const int64_t value = arg_int(args, name, default_value);
  if (value < low || value > high) {
    raise("environment option '{}' is {}; it must be in {}..{}", name, value, low, high);
  }
  return static_cast<int>(value);
}

// "0", "30" (meaning 1..30) or "7..12".
void parse_noops(const EnvArgs& args, AtariOptions& options) {
  const auto it = args.find("noops");
  if (it == args.end()) return;
  const std::string& text = it->second;
  const char *at = text.data(), *end = at + text.size();
  int first = 0, last = 0;
  auto [after, error] = std::from_chars(at, end, first);
  bool good = error == std::errc();
  if (good && after == end) {
    last = first;
    first = std::min(1, last);
  } else if (good && end - after > 2 && after[0] == '.' && after[1] == '.') {
    const auto second = std::from_chars(after + 2, end, last);
    good = second.ec == std::errc() && second.ptr == end;
  } else {
    good = false;
  }
  if (!good || first < 0 || last < first || last > 1000) {
    raise("environment option 'noops' is '{}'; it must be 0 (none), N (1 to N frames) or N..M, up to 1000", text);
  }
  options.noops_min = first;
  options.noops_max = last;
}

}  // namespace

const std::vector<std::string>& atari_presets() {
  static const std::vector<std::string> names{"deepmind", "parl", "v5", "machado"};
  return names;
}

AtariOptions atari_preset(const std::string& name) {
  AtariOptions options;
  options.preset = name;
  if (name == "deepmind") return options;
  if (name == "parl") {
    options.size = 42;
    return options;
  }
  if (name == "v5" || name == "machado") {
    options.noops_min = options.noops_max = 0;
    options.sticky = 0.25;
    options.all_actions = name == "machado";
    options.life_loss_ends = false;
    options.fire_reset = false;
    return options;
  }
  raise("there is no Atari preset '{}'{}; it must be one of: {}", name, did_you_mean(name, atari_presets()),
        fmt::join(atari_presets(), ", "));
}

std::vector<EnvOption> atari_option_list() {
  return {
      {"preset", "deepmind", "deepmind, parl, v5 or machado; the other options change single settings of it"},
      {"size", "preset's", "height and width of the observation (84; parl 42)"},
      {"stack", "4", "frames in an observation, the newest last"},
      {"noops", "preset's", "frames without action at the start of a game: 0, N (1 to N at random) or N..M"},
      {"sticky", "preset's", "probability per emulator frame that the last action is repeated"},
      {"actions", "preset's", "minimal (those the game uses) or all (18)"},
      {"life_loss", "preset's", "end (a lost life ends the episode) or ignore"},
      {"fire_reset", "preset's", "true: press FIRE and action 2 after a reset where the game has FIRE"},
      {"reward", "sign (evaluation: raw)", "sign or raw: the reward to learn from"},
      {"frame_skip", "4", "emulator frames per step, all with the same action"},
      {"pool", "max", "max (of the last two frames) or last (the last frame alone)"},
      {"max_frames", "108000", "emulator frames until a game is truncated; 0: no cap"},
      {"mode", "the game's", "the console's game mode"},
      {"difficulty", "the game's", "the console's difficulty switches"},
  };
}

AtariOptions parse_atari_options(const EnvArgs& args, EnvMode mode) {
  const auto preset = args.find("preset");
  AtariOptions options = atari_preset(preset == args.end() ? "deepmind" : preset->second);
  options.evaluation = mode == EnvMode::kEvaluation;
  options.size = int_in(args, "size", options.size, 8, 160);
  options.stack = int_in(args, "stack", options.stack, 1, 16);
  parse_noops(args, options);
  options.sticky = arg_double(args, "sticky", options.sticky);
  if (!(options.sticky >= 0 && options.sticky < 1)) {
    raise("environment option 'sticky' is {}; it must be in [0, 1)", options.sticky);
  }
  options.all_actions =
      arg_choice(args, "actions", options.all_actions ? "all" : "minimal", {"minimal", "all"}) == "all";
  options.life_loss_ends =
      arg_choice(args, "life_loss", options.life_loss_ends ? "end" : "ignore", {"end", "ignore"}) == "end";
  options.fire_reset = arg_bool(args, "fire_reset", options.fire_reset);
  options.sign_reward = arg_choice(args, "reward", options.evaluation ? "raw" : "sign", {"sign", "raw"}) == "sign";
  options.frame_skip = int_in(args, "frame_skip", options.frame_skip, 1, 64);
  options.pool_max = arg_choice(args, "pool", "max", {"max", "last"}) == "max";
  options.max_frames = int_in(args, "max_frames", options.max_frames, 0, 100'000'000);
  options.mode = int_in(args, "mode", options.mode, -1, 255);
  options.difficulty = int_in(args, "difficulty", options.difficulty, -1, 255);
  return options;
}

std::string atari_contract(const std::string& game, const AtariOptions& o, int actions, bool has_fire) {
  std::string line =
      fmt::format("atari:{} preset {} for {}: ", game, o.preset, o.evaluation ? "evaluation" : "training");
  line += o.noops_max == 0 ? "no no-ops" : fmt::format("no-ops {}..{} at start", o.noops_min, o.noops_max);
  line += fmt::format(", sticky {} per frame, {} actions ({})", o.sticky, actions, o.all_actions ? "all" : "minimal");
  line += !o.life_loss_ends ? ", life loss ignored" : o.evaluation ? ", life loss goes on" : ", life loss ends";
  line += !o.fire_reset ? ", no FIRE after reset"
          : has_fire    ? ", FIRE after reset"
                        : ", FIRE after reset (not in this game)";
  line += fmt::format(", {0}x{0}x{1} grey, {2}, area resize", o.size, o.stack,
                      o.pool_max ? "max of 2 frames" : "last frame");
  line += fmt::format(", reward {}, frame skip {}", o.sign_reward ? "sign" : "raw", o.frame_skip);
  line += o.max_frames == 0 ? ", no cap" : fmt::format(", cap {} frames = truncated", o.max_frames);
  if (o.mode >= 0) line += fmt::format(", mode {}", o.mode);
  if (o.difficulty >= 0) line += fmt::format(", difficulty {}", o.difficulty);
  return line + "; scores are raw and of full games";
}

}  // namespace parl
