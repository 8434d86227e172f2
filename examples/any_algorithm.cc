// One network of the user's own, learnt by whichever algorithm is named: nothing else changes.
//   any_algorithm [impala|a2c|ppo|dqn|pqn ...]
// CartPole until the mean of 100 episodes reaches 150; a few seconds for each.
#include <torch/torch.h>

#include <filesystem>
#include <iostream>

#include "parl/remote/remote.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

namespace {

struct CartPoleNet : parl::Model {
  torch::nn::Linear trunk{nullptr}, policy{nullptr}, value{nullptr};
  explicit CartPoleNet(const parl::ModelSpec& spec) {
    trunk = register_module("trunk", torch::nn::Linear(spec.obs_shape.at(0), 64));
    policy = register_module("policy", torch::nn::Linear(64, spec.num_actions));
    value = register_module("value", torch::nn::Linear(64, 1));
  }
  parl::PolicyValue forward(const at::Tensor& obs) override {
    const at::Tensor hidden = trunk(obs).tanh();
    return {policy(hidden), value(hidden).squeeze(-1)};
  }
};

}  // namespace

int main(int argc, char** argv) {
  parl::set_program([](parl::Program& program) {
    program.models.add("my_net", "one hidden layer",
                       [](const parl::ModelSpec& spec) { return std::make_shared<CartPoleNet>(spec); });
  });
  parl::init(argc, argv);
  std::vector<std::string> algorithms(argv + 1, argv + argc);
  if (algorithms.empty()) algorithms = {"impala", "a2c", "ppo", "dqn", "pqn"};
  for (const std::string& algorithm : algorithms) {
    parl::TrainConfig config = parl::default_config(algorithm, "CartPole-v1");  // the one line
    config.model = "my_net";
    config.run = (std::filesystem::temp_directory_path() / ("parl_any_" + algorithm)).string();
    std::filesystem::remove_all(config.run);
    config.steps = 400'000;
    config.until_return = 150;
    const parl::TrainSummary summary = parl::train(config);
    std::cout << algorithm << ": mean return " << summary.return_mean_100.value_or(0) << " after " << summary.steps
              << " steps\n";
    if (summary.stop_reason != "until_return") return 1;
  }
}
