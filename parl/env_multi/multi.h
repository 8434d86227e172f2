// Small games for several agents at once, native and without dependencies: "multi:rally", "multi:gather".
//
//   EnvRegistry registry;
//   register_multi_envs(registry);
//   std::unique_ptr<ParallelEnv> game = make_multi_game({.id = "multi:gather", .args = {{"agents", "3"}}});
//
// rally   two agents keep a ball in play; who misses it loses 1 to the other. Competitive, zero sum.
// gather  2 to 4 agents collect fruit on a grid; heavy fruit needs two of them side by side. Cooperative.
//
// Rules and observations: docs/multi-agent.md. Errors: an unknown game or option lists the near names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parl/env/registry.h"

namespace parl {

std::vector<std::string> multi_games();  // "rally", "gather"
std::unique_ptr<ParallelEnv> make_multi_game(const EnvRequest& request);
void register_multi_envs(EnvRegistry& registry);

}  // namespace parl
