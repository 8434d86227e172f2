// register_builtin_envs: the environments that come with PARL and need nothing else.
#include "parl/env/classic_control.h"
#include "parl/env/registry.h"
#include "parl/env/wrappers.h"

namespace parl {
namespace {

using MakeTask = std::function<std::unique_ptr<Env>(const EnvArgs&)>;

// A task with its registered time limit, which the option max_episode_steps changes (0: none).
void add_task(EnvRegistry& registry, const std::string& id, const std::string& summary, int64_t limit, MakeTask make,
              std::vector<EnvOption> options) {
  options.push_back({"max_episode_steps", std::to_string(limit), "steps until an episode is truncated; 0: never"});
  registry.add(
      id, summary,
      [id, limit, make = std::move(make)](const EnvRequest& request) -> std::unique_ptr<Env> {
        const int64_t steps = arg_int(request.args, "max_episode_steps", limit);
        PARL_CHECK(steps >= 0, "environment option 'max_episode_steps' of '{}' is {}; it must be 0 or more", id, steps);
        std::unique_ptr<Env> env = make(request.args);
        if (steps > 0) env = std::make_unique<TimeLimit>(std::move(env), steps);
        return env;
      },
      std::move(options));
}

}  // namespace

void register_builtin_envs(EnvRegistry& registry) {
  const EnvOption goal_velocity{"goal_velocity", "0", "speed that the car needs at the flag"};
  add_task(registry, "CartPole-v1", "balance a pole on a cart (2 actions)", 500,
           [](const EnvArgs& args) { return std::make_unique<CartPole>(arg_bool(args, "sutton_barto_reward", false)); },
           {{"sutton_barto_reward", "false", "reward 0 a step and -1 at the fall"}});
  add_task(registry, "Acrobot-v1", "swing a two-link pendulum over a line (3 actions)", 500,
           [](const EnvArgs&) { return std::make_unique<Acrobot>(); }, {});
  add_task(registry, "MountainCar-v0", "drive an underpowered car out of a valley (3 actions)", 200,
           [](const EnvArgs& args) { return std::make_unique<MountainCar>(arg_double(args, "goal_velocity", 0)); },
           {goal_velocity});
  add_task(
      registry, "MountainCarContinuous-v0", "the same car with a continuous force", 999,
      [](const EnvArgs& args) { return std::make_unique<MountainCarContinuous>(arg_double(args, "goal_velocity", 0)); },
      {goal_velocity});
  add_task(registry, "Pendulum-v1", "swing a pendulum up and hold it there (continuous torque)", 200,
           [](const EnvArgs& args) { return std::make_unique<Pendulum>(arg_double(args, "g", 10.0)); },
           {{"g", "10", "gravity in m/s^2"}});
}

}  // namespace parl
