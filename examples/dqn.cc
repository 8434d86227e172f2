// DQN, and what makes Rainbow of it, one option after the other, with a network of the user's own.
//   dqn                            plain DQN
//   dqn double dueling n_step      with these options
//   dqn all                        seven runs: plain, and then one option more in each
// The pixel game Catch; about a second for each run.
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "parl/algorithms/dqn.h"
#include "parl/core/check.h"
#include "parl/remote/remote.h"
#include "parl/train/metrics.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

namespace {

// Two streams: advantages of the actions, and the state's value, which only `dueling` uses. policy_size() is the number
// of actions, or of all their atoms with `distributional`; `noisy` puts its noise into layers by their names.
struct TwoStreams : parl::Model {
  torch::nn::Linear trunk{nullptr}, policy{nullptr}, value{nullptr};
  explicit TwoStreams(const parl::ModelSpec& spec) {
    int64_t cells = 1;
    for (const int64_t d : spec.obs_shape) cells *= d;
    trunk = register_module("trunk", torch::nn::Linear(cells, 64));
    policy = register_module("policy", torch::nn::Linear(64, spec.policy_size()));
    value = register_module("value", torch::nn::Linear(64, 1));
  }
  parl::PolicyValue forward(const at::Tensor& obs) override {
    const at::Tensor x = trunk(obs.flatten(1).to(at::kFloat) / 255).relu();
    return {policy(x), value(x).squeeze(-1)};
  }
};

const std::vector<std::string> kOptions = {"double", "dueling", "n_step", "prioritized", "distributional", "noisy"};

void switch_on(parl::DqnConfig& dqn, const std::string& option) {
  if (option == "double") dqn.double_q = true;
  if (option == "dueling") dqn.dueling = true;
  if (option == "n_step") dqn.n_step = 3;
  if (option == "prioritized") dqn.prioritized = true;
  if (option == "distributional") dqn.distributional = true, dqn.atoms = 21, dqn.v_min = -1, dqn.v_max = 1;
  if (option == "noisy") dqn.noisy = true, dqn.exploration = "0";
}

// The steps after which the greedy policy catches nine balls of ten; -1: it never did.
long train(const std::vector<std::string>& options) {
  parl::TrainConfig config = parl::program().config_of("dqn");
  config.env = "pixel:catch";
  config.model = "two_streams";
  config.run = (std::filesystem::temp_directory_path() / "parl_dqn").string();
  std::filesystem::remove_all(config.run);
  config.deterministic = true;
  config.steps = 12'000;
  config.eval_steps = config.log_steps = 500;  // plays 50 games greedily, for the column eval_return of metrics.csv
  config.eval_episodes = 50;
  config.actors = 1;
  config.envs_per_actor = 4;
  config.rollout_length = 9;
  auto& dqn = config.settings.as<parl::DqnConfig>();
  dqn.double_q = false;
  dqn.lr = 1e-3;
  dqn.batch_size = 32;
  dqn.train_ratio = 8;  // transitions learnt per step collected: an update every fourth step
  dqn.target_updates = 100;
  dqn.learn_start = 1'000;
  dqn.replay_capacity = 10'000;
  dqn.exploration = "0:1,6000:0.05";  // epsilon over agent steps
  for (const std::string& option : options) switch_on(dqn, option);
  parl::train(config, {.show_status = false});
  const parl::MetricsTable metrics = parl::read_metrics(config.run + "/metrics.csv");
  const std::vector<double> steps = metrics.column("steps"), returns = metrics.column("eval_return");
  for (size_t row = 0; row < steps.size(); ++row) {
    if (returns[row] >= 0.8) return static_cast<long>(steps[row]);
  }
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  parl::set_program([](parl::Program& program) {
    program.models.add("two_streams", "advantages and value",
                       [](const parl::ModelSpec& spec) { return std::make_shared<TwoStreams>(spec); });
  });
  parl::init(argc, argv);
  std::vector<std::string> options(argv + 1, argv + argc);
  std::vector<std::vector<std::string>> runs = {options};
  if (options == std::vector<std::string>{"all"}) {
    runs = {{}};
    for (const std::string& option : kOptions) {
      runs.push_back(runs.back());
      runs.back().push_back(option);
    }
  } else {
    for (const std::string& option : options) {
      if (std::find(kOptions.begin(), kOptions.end(), option) != kOptions.end()) continue;
      std::fprintf(stderr, "dqn: there is no option '%s'; there are: all, or any of %s\n", option.c_str(),
                   fmt::format("{}", fmt::join(kOptions, ", ")).c_str());
      return 2;
    }
  }
  std::puts("Catch: steps after which the greedy policy catches nine balls of ten");
  bool all = true;
  for (const auto& run : runs) {
    const long steps = train(run);
    std::printf("%6ld  %s\n", steps, run.empty() ? "plain" : fmt::format("{}", fmt::join(run, " ")).c_str());
    std::fflush(stdout);
    all = all && steps > 0;
  }
  return all ? 0 : 1;
}
