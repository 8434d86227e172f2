// Continuous control with networks of one's own: SAC (or td3, ddpg) swings a pendulum up, then the trained policy acts
// alone.
//   sac [sac|td3|ddpg]
// Some seconds; the return goes from about -1,200 to about -150.
#include <torch/torch.h>

#include <filesystem>
#include <iostream>

#include "parl/env/registry.h"
#include "parl/models/policy.h"
#include "parl/remote/remote.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

namespace {

// What acts: means and log deviations of the action's components, and a value, which these algorithms leave alone.
struct MyPolicy : parl::Model {
  torch::nn::Linear hidden{nullptr}, policy{nullptr};
  explicit MyPolicy(const parl::ModelSpec& spec) {
    hidden = register_module("hidden", torch::nn::Linear(spec.obs_shape.at(0), 64));
    policy = register_module("policy", torch::nn::Linear(64, 2 * spec.action_size));
  }
  parl::PolicyValue forward(const at::Tensor& obs) override {
    return {policy(hidden(obs).relu()), torch::zeros({obs.size(0)})};
  }
  bool is_gaussian() const override { return true; }
};

// What judges: Q(observation, action). Leave it out, and two layers of 256 do it.
struct MyCritic : parl::QModel {
  torch::nn::Linear hidden{nullptr}, second{nullptr}, out{nullptr};
  explicit MyCritic(const parl::ModelSpec& spec) {
    hidden = register_module("hidden", torch::nn::Linear(spec.obs_shape.at(0) + spec.action_size, 64));
    second = register_module("second", torch::nn::Linear(64, 64));
    out = register_module("out", torch::nn::Linear(64, 1));
  }
  at::Tensor forward(const at::Tensor& obs, const at::Tensor& action) override {
    return out(second(hidden(torch::cat({obs, action}, 1)).relu()).relu()).squeeze(1);
  }
};

void add_networks(parl::ModelRegistry& models) {
  models.add("mine", "one hidden layer", [](const parl::ModelSpec& s) { return std::make_shared<MyPolicy>(s); });
  models.add_critic("mine", "two hidden layers",
                    [](const parl::ModelSpec& s) { return std::make_shared<MyCritic>(s); });
}

// The mean return of some episodes: no algorithm, no training loop.
double play(parl::Policy& policy, int episodes) {
  parl::EnvRegistry envs;
  parl::register_builtin_envs(envs);
  const auto env = envs.make({.id = "Pendulum-v1"});
  std::vector<std::byte> obs(env->spec().observation.bytes());
  double total = 0;
  for (int i = 0; i < episodes; ++i) {
    env->reset(static_cast<uint64_t>(1'000 + i), obs);
    for (;;) {
      const std::vector<float> torque = policy.act_values(obs);
      const parl::StepResult result = env->step({.values = torque}, obs);
      total += result.reward;
      if (result.terminated || result.truncated) break;
    }
  }
  return total / episodes;
}

}  // namespace

int main(int argc, char** argv) {
  parl::set_program([](parl::Program& program) { add_networks(program.models); });
  parl::init(argc, argv);
  const std::string algorithm = argc > 1 ? argv[1] : "sac";
  parl::TrainConfig config = parl::default_config(algorithm, "Pendulum-v1");
  config.model = "mine";  // and with it the critic of that name
  config.run = (std::filesystem::temp_directory_path() / ("parl_pendulum_" + algorithm)).string();
  std::filesystem::remove_all(config.run);
  config.steps = 12'000;
  config.deterministic = true;
  parl::train(config);

  parl::ModelRegistry models = parl::builtin_models();
  add_networks(models);
  const double mean = play(*parl::load_policy(config.run, models), 10);
  std::cout << algorithm << ": mean return " << mean << " over 10 episodes\n";
  return mean > -400 ? 0 : 1;
}
