// DDPG swings a pendulum up; then the network alone, loaded by the run's name, does it before your eyes.
//   ddpg
// The torque is one number in -2..2. A policy that does nothing has a return of about -1,200; some seconds.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "parl/algorithms/ddpg.h"
#include "parl/models/policy.h"
#include "parl/remote/remote.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

namespace {

// One episode, drawn: a line for every eighth step, the pendulum's side and height, and the torque.
double show_episode(parl::Policy& policy, parl::Env& env) {
  std::vector<float> obs(3);  // cosine and sine of the angle from upright, speed
  const auto bytes = std::as_writable_bytes(std::span(obs));
  env.reset(7, bytes);
  double total = 0;
  parl::StepResult result;
  for (int step = 0; !result.done(); ++step) {
    const std::vector<float> torque = policy.act_values(bytes);  // in the environment's units
    if (step % 8 == 0 && step < 120) {
      std::string line(41, ' ');
      line[20] = '|';
      line[static_cast<size_t>(20 + std::lround(18 * obs[1]))] = 'o';
      std::printf("%3d %s height %+.2f torque %+.2f\n", step, line.c_str(), double(obs[0]), double(torque[0]));
    }
    result = env.step(parl::Action::continuous(torque), bytes);
    total += result.reward;
  }
  return total;
}

}  // namespace

int main(int argc, char** argv) {
  parl::init(argc, argv);
  parl::TrainConfig config = parl::default_config("ddpg", "Pendulum-v1");
  config.run = (std::filesystem::temp_directory_path() / "parl_ddpg").string();
  std::filesystem::remove_all(config.run);
  config.deterministic = true;
  config.steps = 12'000;
  auto& ddpg = config.settings.as<parl::DdpgConfig>();
  ddpg.exploration_noise = 0.1;  // normal noise on the actions of training, in units of -1..1
  ddpg.learn_start = 1'000;      // steps of actions by chance before

  // Four environments play at once, so episodes end in fours.
  int64_t episodes = 0;
  double sum = 0;
  parl::TrainHooks hooks{.show_status = false};
  hooks.on_episode = [&](const parl::Episode& episode, int64_t steps) {
    sum += episode.raw_return;
    if (++episodes % 4 != 0) return;
    std::printf("%6ld steps: return %7.1f\n", long(steps), sum / 4);
    sum = 0;
  };
  parl::train(config, hooks);

  const auto policy = parl::load_policy(config.run);  // the network alone: no critic, no replay, no noise
  const auto env = parl::program().envs.make({.id = config.env});
  const double total = show_episode(*policy, *env);
  std::printf("return of this episode without noise: %.1f\n", total);
  return total > -400 ? 0 : 1;
}
