// Small pixel games of our own, without emulator and ROMs: pixel:catch after bsuite's Catch, and pixel:asterix,
// pixel:breakout, pixel:freeway, pixel:seaquest and pixel:space_invaders after the games that Young & Tian 2019
// (MinAtar, arXiv 1903.03176) describe. Rules, channels, actions, rewards, options: docs/pixel-games.md.
//
//   register_pixel_envs(registry);
//   auto env = registry.make({.id = "pixel:breakout", .args = {{"sticky", "0"}}});
//
// Thread rule: any thread. Errors: parl::Error.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parl/env/registry.h"
#include "parl/env_pixel/pixel_game.h"

namespace parl {

void register_pixel_envs(EnvRegistry& registry);

// "catch", "asterix", ...
std::vector<std::string> pixel_games();
// ramp: the game grows harder, where it knows how to. Throws with the near names.
std::unique_ptr<PixelGame> make_pixel_game(const std::string& name, bool ramp = true);

}  // namespace parl
