// IMPALA: remote actors play the pixel game Catch with slightly old weights, one learner corrects for that, and the
// network is the user's own. Where the actors live is one word:
//   impala                                threads
//   impala process                        processes
//   impala tcp://127.0.0.1:8037           workers that dial in: this program again, in other terminals or machines, as
//   impala --parl-worker tcp://127.0.0.1:8037 --slots 2
// About a second. The run is deterministic: wherever the actors live, the same numbers are printed.
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>

#include "parl/agent/init.h"
#include "parl/remote/remote.h"
#include "parl/train/evaluate.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

namespace {

// One trunk for policy and value. Observations arrive as the bytes of pictures, [N, height, width, channels].
struct CatchNet : parl::Model {
  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear hidden{nullptr}, policy{nullptr}, value{nullptr};
  explicit CatchNet(const parl::ModelSpec& spec) {
    const int64_t height = spec.obs_shape.at(0), width = spec.obs_shape.at(1), channels = spec.obs_shape.at(2);
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 4, 3).stride({2, 1})));
    hidden = register_module("hidden", torch::nn::Linear(4 * ((height - 3) / 2 + 1) * (width - 2), 64));
    policy = register_module("policy", torch::nn::Linear(64, spec.num_actions));
    value = register_module("value", torch::nn::Linear(64, 1));
    // How weights begin matters: filters that see edges and no even areas, and a first policy that favours nothing.
    parl::pixel_init(conv->weight, conv->bias, parl::kPixelGain);
    parl::orthogonal_init(hidden->weight, hidden->bias, parl::kReluGain);
    parl::orthogonal_init(policy->weight, policy->bias, parl::kPolicyGain);
    parl::orthogonal_init(value->weight, value->bias, 1);
  }
  parl::PolicyValue forward(const at::Tensor& obs) override {
    const at::Tensor image = obs.permute({0, 3, 1, 2}).to(at::kFloat) / 255;
    const at::Tensor x = hidden(conv(image).relu().flatten(1)).relu();
    return {policy(x), value(x).squeeze(-1)};
  }
};

}  // namespace

int main(int argc, char** argv) {
  // A function and not a statement: the workers, which are processes of their own, have to know the network, too.
  parl::set_program([](parl::Program& program) {
    program.models.add("catch_net", "a convolution and a hidden layer",
                       [](const parl::ModelSpec& spec) { return std::make_shared<CatchNet>(spec); });
  });
  parl::init(argc, argv);  // a worker stays in here

  parl::TrainConfig config;  // IMPALA's defaults
  config.env = "pixel:catch";
  config.model = "catch_net";
  config.run = (std::filesystem::temp_directory_path() / "parl_impala").string();
  std::filesystem::remove_all(config.run);
  config.engine = argc > 1 ? argv[1] : "thread";
  config.deterministic = true;
  config.actors = 2;
  config.envs_per_actor = 8;
  config.rollout_length = 9;  // steps of each environment per rollout; a game has nine
  config.steps = 200'000;
  config.until_return = 0.9;  // the paddle catches the ball (1) or not (-1)
  auto& impala = config.settings.as<parl::ImpalaConfig>();
  impala.optimizer = parl::OptimizerKind::kAdam;
  impala.lr = 3e-3;
  impala.loss_reduction = parl::Reduction::kMean;
  impala.max_grad_norm = 0.5;

  std::printf("two actors (engine %s) play Catch, one learner learns\n", config.engine.c_str());
  const parl::TrainSummary summary = parl::train(config, {.show_status = false});
  std::printf("%ld steps, %ld updates from rollouts that were %.2f updates old: mean return %.2f\n",
              long(summary.steps), long(summary.updates), summary.policy_lag_mean,
              summary.return_mean_100.value_or(-1));

  const parl::LoadedRun run = parl::load_run(config.run);
  const double greedy = parl::evaluate(*run.algorithm, {.env = config.env, .episodes = 50}).return_mean;
  std::printf("what was learnt, playing greedily: %.2f\n", greedy);
  return greedy >= 0.9 ? 0 : 1;
}
