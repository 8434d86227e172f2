// PQN: Q-learning from many environments at once, without the two things that DQN has against instability: no replay
// buffer, no target network. What takes their place is LayerNorm in the network, which is the user's own here.
//   pqn                 with LayerNorm
//   pqn plain           the same network without: CartPole is so easy that it learns all the same
// 128 environments; some seconds.
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>

#include "parl/agent/init.h"
#include "parl/algorithms/pqn.h"
#include "parl/remote/remote.h"
#include "parl/train/evaluate.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

namespace {

// Q(s, a) is logit a; the value is not used. Orthogonal layers, and a last one that begins near zero: so do the Qs.
struct QNet : parl::Model {
  torch::nn::Sequential layers;
  QNet(const parl::ModelSpec& spec, bool norm) {
    int64_t inputs = spec.obs_shape.at(0);
    for (int i = 0; i < 2; ++i) {
      torch::nn::Linear linear(inputs, 64);
      parl::orthogonal_init(linear->weight, linear->bias, parl::kReluGain);
      layers->push_back(linear);
      if (norm) layers->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})));
      layers->push_back(torch::nn::ReLU());
      inputs = 64;
    }
    torch::nn::Linear q(inputs, spec.num_actions);
    parl::orthogonal_init(q->weight, q->bias, parl::kPolicyGain);
    layers->push_back(q);
    register_module("layers", layers);
  }
  parl::PolicyValue forward(const at::Tensor& obs) override {
    return {layers->forward(obs), torch::zeros({obs.size(0)})};
  }
};

}  // namespace

int main(int argc, char** argv) {
  parl::set_program([](parl::Program& program) {
    program.models.add("norm", "two hidden layers with LayerNorm",
                       [](const parl::ModelSpec& spec) { return std::make_shared<QNet>(spec, true); });
    program.models.add("plain", "the same without",
                       [](const parl::ModelSpec& spec) { return std::make_shared<QNet>(spec, false); });
  });
  parl::init(argc, argv);
  parl::TrainConfig config = parl::program().config_of("pqn");
  config.env = "CartPole-v1";
  config.model = argc > 1 ? argv[1] : "norm";
  config.run = (std::filesystem::temp_directory_path() / "parl_pqn").string();
  std::filesystem::remove_all(config.run);
  config.deterministic = true;
  config.steps = 300'000;
  config.until_return = 250;
  config.actors = 2;
  config.envs_per_actor = 64;
  config.rollout_length = 16;  // 2,048 steps for each batch, which is learnt and forgotten
  auto& pqn = config.settings.as<parl::PqnConfig>();
  pqn.lambda = 0.95;
  pqn.lr = 1e-3;
  pqn.epochs = 4;
  pqn.minibatches = 32;
  pqn.exploration = "0:1,30000:0.02";  // epsilon over agent steps

  std::printf("CartPole in 2 x 64 environments, network '%s'\n", config.model.c_str());
  parl::TrainHooks hooks{.show_status = false};
  hooks.on_update = [](const parl::UpdateInfo& update) {
    if (update.updates % 5 != 0) return;
    std::printf("%6ld steps:", long(update.steps));
    for (const auto& [name, value] : *update.stats) {
      if (name == "q_mean" || name == "td_error" || name == "epsilon") std::printf(" %s %.2f", name.c_str(), value);
    }
    std::puts("");
  };
  const parl::TrainSummary summary = parl::train(config, hooks);
  const parl::LoadedRun run = parl::load_run(config.run, false);
  const double greedy = parl::evaluate(*run.algorithm, {.env = config.env, .episodes = 20}).return_mean;
  std::printf("%ld steps: mean return %.1f, playing greedily %.1f\n", long(summary.steps),
              summary.return_mean_100.value_or(0), greedy);
  return summary.stop_reason == "until_return" ? 0 : 1;
}
