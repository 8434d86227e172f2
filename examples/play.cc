// Plays an episode with a trained policy. Links networks and environments alone: no algorithm, no training loop.
//   play RUN [ENVIRONMENT]        e.g. play runs/impala-CartPole-v1-seed1 CartPole-v1
#include <cstddef>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "parl/env/registry.h"
#include "parl/models/policy.h"

namespace {

void play(const std::string& run, const std::string& environment) {
  const auto policy = parl::load_policy(run);
  parl::EnvRegistry envs;
  parl::register_builtin_envs(envs);
  const auto env = envs.make({.id = environment});
  std::vector<std::byte> obs(env->spec().observation.bytes());
  env->reset(1, obs);
  policy->reset();  // a new episode, for a network with a memory
  double total = 0;
  for (;;) {
    parl::Action action;
    std::vector<float> values;
    if (policy->spec().action_size > 0) {
      values = policy->act_values(obs);
      action.values = values;
    } else {
      action.index = policy->act(obs);
    }
    const parl::StepResult result = env->step(action, obs);
    total += result.reward;
    if (result.terminated || result.truncated) break;
  }
  std::cout << "return " << total << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: play RUN [ENVIRONMENT]\n";
    return 2;
  }
  try {
    play(argv[1], argc > 2 ? argv[2] : "CartPole-v1");
  } catch (const std::exception& error) {
    std::cerr << "play: " << error.what() << '\n';
    return 1;
  }
}
