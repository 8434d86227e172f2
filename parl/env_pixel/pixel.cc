#include "parl/env_pixel/pixel.h"

#include "parl/env/wrappers.h"
#include "parl/env_pixel/asterix.h"
#include "parl/env_pixel/breakout.h"
#include "parl/env_pixel/catch.h"
#include "parl/env_pixel/freeway.h"
#include "parl/env_pixel/pixel_env.h"
#include "parl/env_pixel/seaquest.h"
#include "parl/env_pixel/space_invaders.h"

namespace parl {
namespace {

constexpr const char* kFamily = "pixel";

struct GameEntry {
  const char* name;
  std::unique_ptr<PixelGame> (*make)(bool ramp);
};

constexpr GameEntry kGames[] = {
    {"catch", [](bool) -> std::unique_ptr<PixelGame> { return std::make_unique<CatchGame>(); }},
    {"asterix", [](bool ramp) -> std::unique_ptr<PixelGame> { return std::make_unique<AsterixGame>(ramp); }},
    {"breakout", [](bool) -> std::unique_ptr<PixelGame> { return std::make_unique<BreakoutGame>(); }},
    {"freeway", [](bool) -> std::unique_ptr<PixelGame> { return std::make_unique<FreewayGame>(); }},
    {"seaquest", [](bool ramp) -> std::unique_ptr<PixelGame> { return std::make_unique<SeaquestGame>(ramp); }},
    {"space_invaders",
     [](bool ramp) -> std::unique_ptr<PixelGame> { return std::make_unique<SpaceInvadersGame>(ramp); }},
};

std::vector<EnvOption> options() {
  return {{"sticky", "0.1; catch: 0", "probability that the move before is repeated, 0 up to (not with) 1"},
          {"ramp", "true", "asterix, seaquest and space_invaders grow harder with time"},
          {"actions", "minimal", "minimal: those that the game uses; all: none, left, up, right, down, fire"},
          {"render", "0", "0: planes; N: a grey picture of N x N pixels, such as 84"},
          {"stack", "1", "observations side by side in the last dimension, the newest last"},
          {"max_episode_steps", "10000; freeway: 2500; catch: 0", "steps until an episode is truncated; 0: never"}};
}

std::unique_ptr<Env> make(const EnvRequest& request) {
  const std::string name = request.id.substr(std::string(kFamily).size() + 1);
  const bool ramp = arg_bool(request.args, "ramp", true);
  std::unique_ptr<PixelGame> game = make_pixel_game(name, ramp);
  const PixelGameInfo& info = game->info();
  PixelOptions options;
  options.sticky = arg_double(request.args, "sticky", info.sticky);
  options.all_actions = arg_choice(request.args, "actions", "minimal", {"minimal", "all"}) == "all";
  const int64_t render = arg_int(request.args, "render", 0), stack = arg_int(request.args, "stack", 1);
  const int64_t steps = arg_int(request.args, "max_episode_steps", info.max_steps);
  PARL_CHECK(stack >= 1 && stack <= 16, "option stack of '{}' is 1..16, not {}", request.id, stack);
  PARL_CHECK(steps >= 0, "environment option 'max_episode_steps' of '{}' is {}; it must be 0 or more", request.id,
             steps);
  options.render = static_cast<int>(std::clamp<int64_t>(render, -1, 1'000'000));  // its own check says what is right
  const char* ramp_note = info.ramps ? (ramp ? ", grows harder" : ", difficulty constant") : "";
  std::unique_ptr<Env> env = std::make_unique<PixelEnv>(std::move(game), options, ramp_note);
  if (stack > 1) env = std::make_unique<FrameStack>(std::move(env), static_cast<int>(stack));
  if (steps > 0) env = std::make_unique<TimeLimit>(std::move(env), steps);
  return env;
}

}  // namespace

std::vector<std::string> pixel_games() {
  std::vector<std::string> names;
  for (const GameEntry& entry : kGames) names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<PixelGame> make_pixel_game(const std::string& name, bool ramp) {
  for (const GameEntry& entry : kGames) {
    if (name == entry.name) return entry.make(ramp);
  }
  raise("there is no pixel game '{}'{}", name, did_you_mean(name, pixel_games()));
}

void register_pixel_envs(EnvRegistry& registry) {
  registry.add({kFamily, "a small pixel game without ROMs: catch after bsuite, the others after MinAtar",
                [] {
                  std::vector<std::string> ids;
                  for (const std::string& name : pixel_games()) ids.push_back(std::string(kFamily) + ":" + name);
                  return ids;
                },
                options(), make});
}

}  // namespace parl
