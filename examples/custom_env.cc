// A custom environment and a custom network with IMPALA unchanged: a corridor walker that must fetch a key before the
// door.
//   custom_env [inline|thread|process]
// Shows the whole path of a user's own task: write an Env, write a Model, name both, train. About a minute on one core.
#include <torch/torch.h>

#include <cstring>
#include <filesystem>
#include <iostream>

#include "parl/core/rng.h"
#include "parl/remote/remote.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

namespace {

// Cells 0..length-1. The key lies at a random cell of the left half, the door is the right end. Walking costs 0.01;
// the door with the key in hand gives 1 and ends the episode.
class Corridor : public parl::Env {
 public:
  Corridor() {
    spec_.id = "Corridor-v0";
    spec_.observation = parl::Box{parl::DType::kF32, {3}, {0}, {1}};
    spec_.action = parl::Discrete{2};
    spec_.max_episode_steps = 100;
    spec_.contract = "Corridor-v0, 12 cells, a step costs 0.01, truncated after 100 steps";
  }
  const parl::EnvSpec& spec() const override { return spec_; }

  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override {
    if (seed) rng_ = parl::CounterRng(*seed, 0);
    key_ = static_cast<int>(rng_.below(kLength / 2));
    at_ = kLength / 2;
    steps_ = 0;
    has_key_ = false;
    observe(obs);
  }

  parl::StepResult step(const parl::Action& action, std::span<std::byte> obs) override {
    at_ = std::clamp(at_ + (action.index == 1 ? 1 : -1), 0, kLength - 1);
    has_key_ |= at_ == key_;
    ++steps_;
    observe(obs);
    parl::StepResult result;
    result.terminated = has_key_ && at_ == kLength - 1;
    result.truncated = steps_ >= spec_.max_episode_steps;
    result.reward = result.terminated ? 1.0f : -0.01f;
    return result;
  }

 private:
  static constexpr int kLength = 12;
  void observe(std::span<std::byte> obs) const {
    const float values[3] = {float(at_) / kLength, float(key_) / kLength, has_key_ ? 1.0f : 0.0f};
    std::memcpy(obs.data(), values, sizeof(values));
  }

  parl::EnvSpec spec_;
  parl::CounterRng rng_{0, 0};
  int at_ = 0, key_ = 0;
  int64_t steps_ = 0;
  bool has_key_ = false;
};

// One trunk for policy and value.
struct CorridorNet : parl::Model {
  torch::nn::Linear trunk{nullptr}, policy{nullptr}, value{nullptr};
  explicit CorridorNet(const parl::ModelSpec& spec) {
    trunk = register_module("trunk", torch::nn::Linear(spec.obs_shape.at(0), 32));
    policy = register_module("policy", torch::nn::Linear(32, spec.num_actions));
    value = register_module("value", torch::nn::Linear(32, 1));
  }
  parl::PolicyValue forward(const at::Tensor& obs) override {
    const at::Tensor hidden = trunk(obs).tanh();
    return {policy(hidden), value(hidden).squeeze(-1)};
  }
};

void set_up(parl::Program& program) {
  program.envs.add("Corridor-v0", "fetch the key, then the door",
                   [](const parl::EnvRequest&) { return std::make_unique<Corridor>(); });
  program.models.add("corridor_net", "one hidden layer",
                     [](const parl::ModelSpec& spec) { return std::make_shared<CorridorNet>(spec); });
}

}  // namespace

int main(int argc, char** argv) {
  parl::set_program(set_up);  // before parl::init: worker processes build the same environments
  parl::init(argc, argv);
  parl::TrainConfig config;
  config.env = "Corridor-v0";
  config.model = "corridor_net";
  config.run = (std::filesystem::temp_directory_path() / "parl_custom_env").string();
  std::filesystem::remove_all(config.run);
  config.engine = argc > 1 ? argv[1] : "thread";
  config.steps = 200'000;
  config.envs_per_actor = 8;
  config.rollout_length = 32;
  config.until_return = 0.8;
  auto& impala = config.settings.as<parl::ImpalaConfig>();
  impala.optimizer = parl::OptimizerKind::kAdam;
  impala.lr = 2e-3;
  impala.eps = 1e-5;
  impala.loss_reduction = parl::Reduction::kMean;
  impala.max_grad_norm = 0.5;
  const parl::TrainSummary summary = parl::train(config);
  std::cout << summary.steps << " steps, mean return " << summary.return_mean_100.value_or(-1) << '\n';
  return summary.stop_reason == "until_return" ? 0 : 1;
}
