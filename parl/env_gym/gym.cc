#include "parl/env_gym/gym.h"

#include <algorithm>
#include <sstream>

#include "parl/env_gym/internal/gym_spaces.h"

namespace parl {
namespace {

constexpr const char* kPrefix = "gym:";

std::vector<EnvOption> bridge_options() {
  return {{"python", "$PARL_PYTHON, or that of set-up, or python3", "the interpreter"},
          {"import", "", "modules that register environments, separated by spaces"},
          {"kwargs", "{}", "further arguments of gymnasium.make, as a JSON object"},
          {"timeout", "60", "seconds that a step may take before its process is killed"},
          {"start_timeout", "60, or timeout if that is more",
           "seconds that the start of Python and gymnasium.make may take"},
          {"per_process", "4", "environments of one actor that share a process, 1..64"},
          {"action_mask", "", "info: info[\"action_mask\"] becomes a part of the observation"},
          {"seed_bits", "64", "seeds are cut to so many bits"},
          {"...", "", "everything else goes to gymnasium.make: continuous=true, gravity=-5"}};
}

bool is_of_bridge(const std::string& name) {
  for (const EnvOption& option : bridge_options()) {
    if (option.name == name) return true;
  }
  return false;
}

}  // namespace

GymOptions gym_options(const EnvRequest& request) {
  PARL_CHECK(request.id.starts_with(kPrefix) && request.id.size() > std::string(kPrefix).size(),
             "'{}' names no Gymnasium environment: gym:CartPole-v1", request.id);
  const auto text = [&](const char* name, const char* default_value) {
    const auto at = request.args.find(name);
    return at == request.args.end() ? std::string(default_value) : at->second;
  };
  GymOptions options;
  options.id = request.id.substr(std::string(kPrefix).size());
  options.python = text("python", "");
  options.timeout = arg_double(request.args, "timeout", options.timeout);
  options.start_timeout = arg_double(request.args, "start_timeout", std::max(60.0, options.timeout));
  options.seed_bits = static_cast<int>(arg_int(request.args, "seed_bits", options.seed_bits));
  options.mask_from_info = !arg_choice(request.args, "action_mask", "", {"", "info"}).empty();
  std::istringstream modules(text("import", ""));
  for (std::string module; modules >> module;) options.imports.push_back(module);
  std::vector<std::pair<std::string, std::string>> more;
  for (const auto& [name, value] : request.args) {
    if (!is_of_bridge(name)) more.emplace_back(name, value);
  }
  options.kwargs = internal::merge_gym_kwargs(text("kwargs", "{}"), more);
  return options;
}

void register_gym_envs(EnvRegistry& registry) {
  EnvFamily family;
  family.prefix = "gym";
  family.summary = "any Gymnasium environment, in a Python process: gym:LunarLander-v3";
  family.names = [] { return std::vector<std::string>(); };
  family.options = bridge_options();
  family.make = [hosts = std::make_shared<GymHosts>()](const EnvRequest& request) {
    return hosts->make(gym_options(request), static_cast<int>(arg_int(request.args, "per_process", 4)));
  };
  family.open = true;
  registry.add(std::move(family));
}

}  // namespace parl
