// Atari 2600 games through the Arcade Learning Environment (ALE): the environment family "atari:<game>".
//
//   register_atari_envs(registry);
//   auto env = registry.make({.id = "atari:pong", .args = {{"preset", "parl"}, {"sticky", "0.25"}}});
//
// The contract of each preset and every option: docs/atari.md; the environment: atari_env.h.
// Programs linked with this room contain the ALE and are therefore under the GPL, version 2.
#pragma once

#include <string>
#include <vector>

#include "parl/env/registry.h"

namespace parl {

void register_atari_envs(EnvRegistry& registry);

// The games that the ALE supports: "adventure", ..., "zaxxon".
const std::vector<std::string>& atari_games();

// The file of a game's ROM: in the directory that PARL_ROMS names, else in the one of the set-up.
// Throws when the game is unknown (with the near names) or the file is missing (with what to do).
std::string atari_rom(const std::string& game);

}  // namespace parl
