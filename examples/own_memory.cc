// A network of one's own with a memory, learnt by whichever algorithm is named: one function, step().
//   own_memory [impala|ppo ...]
// The task: a number is shown at the first step alone and wanted at the fourth. Until the mean of 100 episodes reaches
// 0.9; a few seconds for each.
#include <torch/torch.h>

#include <cstring>
#include <filesystem>
#include <iostream>

#include "parl/agent/recurrent.h"
#include "parl/core/rng.h"
#include "parl/remote/remote.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

namespace {

class Recall : public parl::Env {
 public:
  Recall() {
    spec_.id = "Recall";
    spec_.observation = parl::Box{parl::DType::kF32, {2}, {-1}, {1}};
    spec_.action = parl::Discrete{2};
    spec_.contract = "Recall, 4 steps";
  }
  const parl::EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override {
    if (seed) random_ = parl::CounterRng(*seed, 0);
    number_ = static_cast<int>(random_.below(2)), step_ = 0;
    write(obs);
  }
  parl::StepResult step(const parl::Action& action, std::span<std::byte> obs) override {
    parl::StepResult result;
    result.terminated = ++step_ == 4;
    if (result.terminated) result.reward = action.index == number_ ? 1.0f : -1.0f;
    write(obs);
    return result;
  }

 private:
  void write(std::span<std::byte> obs) const {
    const float values[2] = {step_ > 0 ? 0.0f : number_ ? 1.0f : -1.0f, step_ == 3 ? 1.0f : 0.0f};
    std::memcpy(obs.data(), values, sizeof(values));
  }
  parl::EnvSpec spec_;
  parl::CounterRng random_{0, 0};
  int number_ = 0, step_ = 0;
};

struct MemoryNet : parl::RecurrentModel {
  torch::nn::GRUCell cell{nullptr};
  torch::nn::Linear policy{nullptr}, value{nullptr};
  explicit MemoryNet(const parl::ModelSpec& spec) {
    cell = register_module("cell", torch::nn::GRUCell(spec.obs_shape.at(0), 32));
    policy = register_module("policy", torch::nn::Linear(32, spec.num_actions));
    value = register_module("value", torch::nn::Linear(32, 1));
  }
  int64_t state_size() const override { return 32; }
  parl::StepOutput step(const at::Tensor& obs, const at::Tensor& state) override {
    const at::Tensor h = cell(obs, state);
    return {{policy(h), value(h).squeeze(-1)}, h};
  }
};

}  // namespace

int main(int argc, char** argv) {
  parl::set_program([](parl::Program& program) {
    program.envs.add("Recall", "a number to remember",
                     [](const parl::EnvRequest&) { return std::make_unique<Recall>(); });
    program.models.add("memory_net", "a GRU of 32",
                       [](const parl::ModelSpec& spec) { return std::make_shared<MemoryNet>(spec); });
  });
  parl::init(argc, argv);
  std::vector<std::string> algorithms(argv + 1, argv + argc);
  if (algorithms.empty()) algorithms = {"impala", "ppo"};
  for (const std::string& algorithm : algorithms) {
    parl::TrainConfig config = parl::train_config_of(R"({"algorithm": ")" + algorithm + R"(", ")" + algorithm + R"(": {
      "loss_reduction": "mean", "max_grad_norm": 0.5, "optimizer": "adam", "lr": 5e-3, "eps": 1e-5}})",
                                                     "here");
    config.env = "Recall";
    config.model = "memory_net";
    config.run = (std::filesystem::temp_directory_path() / ("parl_memory_" + algorithm)).string();
    std::filesystem::remove_all(config.run);
    config.envs_per_actor = 8, config.rollout_length = 16, config.steps = 200'000;
    config.until_return = 0.9;
    const parl::TrainSummary summary = parl::train(config);
    std::cout << algorithm << ": mean return " << summary.return_mean_100.value_or(0) << " after " << summary.steps
              << " steps\n";
    if (summary.stop_reason != "until_return") return 1;
  }
}
