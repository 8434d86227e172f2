// A network of one's own over an observation of parts, for an environment with several numbers an action and a mask:
//   dict_observation train ppo --env Match-v0 --model match_net --run runs/match
//   dict_observation train ppo --env Match-v0 --run runs/match2      (the built-in network for parts)
#include <torch/torch.h>

#include <memory>

#include "cli/command_line.h"
#include "parl/agent/obs_parts.h"
#include "parl/env/match_env.h"
#include "parl/train/program.h"

class MatchNet : public parl::Model {
 public:
  explicit MatchNet(const parl::ModelSpec& spec)
      : board_(parl::find_part(spec, "board")), goal_(parl::find_part(spec, "goal")) {
    hidden_ = register_module("hidden", torch::nn::Linear(board_.elements() + goal_.choices[0], 64));
    policy_ = register_module("policy", torch::nn::Linear(64, spec.policy_size()));
    value_ = register_module("value", torch::nn::Linear(64, 1));
  }

  parl::PolicyValue forward(const at::Tensor& obs) override {
    const at::Tensor board = parl::part_features(obs, board_);  // [N, 64], bytes as x / 255
    const at::Tensor goal = parl::one_hot(obs, goal_);          // [N, 3]
    const at::Tensor x = hidden_->forward(torch::cat({board, goal}, 1)).tanh();
    return {policy_->forward(x), value_->forward(x).squeeze(-1)};  // the mask is applied for you
  }

 private:
  parl::ObsPart board_, goal_;
  torch::nn::Linear hidden_{nullptr}, policy_{nullptr}, value_{nullptr};
};

int main(int argc, char** argv) {
  parl::set_program([](parl::Program& program) {
    program.envs.add("Match-v0", "do what the observation shows (several numbers an action, with a mask)",
                     [](const parl::EnvRequest&) {
                       return std::make_unique<parl::MatchEnv>(parl::MatchEnv::Actions::kSeveral, true);
                     });
    program.models.add("match_net", "one hidden layer over board and goal",
                       [](const parl::ModelSpec& spec) { return std::make_shared<MatchNet>(spec); });
  });
  return parl::command_line(argc, argv);
}
