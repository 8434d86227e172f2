// Any Gymnasium environment in Python: gym:CartPole-v1, gym:LunarLander-v3, gym:my_package:MyEnv-v0.
//
//   register_gym_envs(registry);
//   auto env = registry.make({.id = "gym:LunarLander-v3", .args = {{"continuous", "true"}}});
//
// Environments run in Python processes, up to `per_process` of an actor together (gym_env.h). Options of the bridge:
// python, import, kwargs, timeout, start_timeout, per_process, action_mask, seed_bits; every other one goes to
// gymnasium.make as a number, true, false, none, a JSON list or a text. Which Python: option `python`, else
// $PARL_PYTHON, else that of set-up, else python3 of the path. More: docs/gymnasium.md. Thread rule: any thread.
// Errors: parl::Error, with Python's traceback.
#pragma once

#include "parl/env/registry.h"
#include "parl/env_gym/gym_env.h"

namespace parl {

void register_gym_envs(EnvRegistry& registry);

// What a request asks for. Throws for options that do not parse.
GymOptions gym_options(const EnvRequest& request);

}  // namespace parl
