// The C++ of docs/quickstart.md: a policy gradient learns CartPole, then the trained network plays one episode.
//   quickstart [RUN]
#include <iostream>
#include <vector>

#include "parl/models/policy.h"
#include "parl/remote/remote.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

int main(int argc, char** argv) {
  parl::init(argc, argv);

  parl::TrainConfig config = parl::default_config("pg", "CartPole-v1");
  config.run = argc > 1 ? argv[1] : "runs/quickstart";
  config.until_return = 450;
  const parl::TrainSummary summary = parl::train(config);
  std::cout << summary.stop_reason << " after " << summary.steps << " steps\n";

  const auto policy = parl::load_policy(config.run);
  const auto env = parl::program().envs.make({.id = "CartPole-v1"});
  std::vector<float> obs(4);
  const auto place = std::as_writable_bytes(std::span(obs));
  env->reset(7, place);
  double total = 0;
  for (parl::StepResult step; !step.done(); total += step.reward) {
    step = env->step(parl::Action::discrete(policy->act(std::as_bytes(std::span(obs)))), place);
  }
  std::cout << "return " << total << "\n";
}
