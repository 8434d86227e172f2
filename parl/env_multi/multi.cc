#include "parl/env_multi/multi.h"

#include "parl/env_multi/gather.h"
#include "parl/env_multi/rally.h"

namespace parl {
namespace {

constexpr const char* kFamily = "multi";

int int_arg(const EnvRequest& request, const std::string& name, int default_value) {
  const int64_t value = arg_int(request.args, name, default_value);
  PARL_CHECK(value >= -1'000'000 && value <= 1'000'000, "option {} of '{}' cannot be {}", name, request.id, value);
  return static_cast<int>(value);
}

}  // namespace

std::vector<std::string> multi_games() { return {"gather", "rally"}; }

std::unique_ptr<ParallelEnv> make_multi_game(const EnvRequest& request) {
  const std::string prefix = std::string(kFamily) + ":";
  const std::string name = request.id.starts_with(prefix) ? request.id.substr(prefix.size()) : request.id;
  if (name == "rally") {
    for (const char* option : {"agents", "fruit"})
      PARL_CHECK(!request.args.contains(option), "'{}' has no option '{}': it is of multi:gather", request.id, option);
    const int64_t steps = int_arg(request, "max_episode_steps", 200);
    PARL_CHECK(steps >= 0, "environment option 'max_episode_steps' of '{}' is {}; it must be 0 or more", request.id,
               steps);
    return std::make_unique<Rally>(steps);
  }
  if (name == "gather") {
    GatherOptions options;
    options.agents = int_arg(request, "agents", options.agents);
    options.fruit = int_arg(request, "fruit", options.fruit);
    options.max_steps = int_arg(request, "max_episode_steps", 50);
    PARL_CHECK(options.max_steps >= 0, "environment option 'max_episode_steps' of '{}' is {}; it must be 0 or more",
               request.id, options.max_steps);
    return std::make_unique<Gather>(options);
  }
  raise("there is no game '{}'{}", request.id, did_you_mean(name, multi_games()));
}

void register_multi_envs(EnvRegistry& registry) {
  registry.add(
      EnvFamily{kFamily,
                "small games for several agents at once: gather (cooperative), rally (competitive)",
                [] {
                  std::vector<std::string> ids;
                  for (const std::string& name : multi_games()) ids.push_back(std::string(kFamily) + ":" + name);
                  return ids;
                },
                {{"agents", "2", "gather: agents, 2 to 4"},
                 {"fruit", "3", "gather: pieces of fruit, 1 to 6"},
                 {"max_episode_steps", "rally: 200; gather: 50", "steps until an episode is truncated; 0: never"}},
                {},
                make_multi_game});
}

}  // namespace parl
