// What TD3 adds to DDPG, one addition after the other, on the pendulum: a second critic, noise on the target's actions,
// a policy that moves half as often.
//   td3               all four; about two seconds each
//   td3 full          TD3 alone; also: ddpg, twin, smooth
// A task as small as this all of them solve, TD3's slower policy last. Q, what the critic says of the policy, shows
// what the second one is for: the smaller of two opinions is more modest. Harder: `parl train td3 --env
// HalfCheetah-v5`.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "parl/algorithms/td3.h"
#include "parl/remote/remote.h"
#include "parl/train/metrics.h"
#include "parl/train/presets.h"
#include "parl/train/trainer.h"

namespace {

struct Variant {
  const char* name;
  const char* algorithm;
  double target_noise;
  int64_t policy_delay;
  const char* says;
};
const Variant kVariants[] = {
    {"ddpg", "ddpg", 0, 1, "one critic"},
    {"twin", "td3", 0, 1, "+ a second critic"},
    {"smooth", "td3", 0.2, 1, "+ noise on the target's actions"},
    {"full", "td3", 0.2, 2, "+ a policy half as often: TD3"},
};

double train(const Variant& variant) {
  parl::TrainConfig config = parl::default_config(variant.algorithm, "Pendulum-v1");
  config.run = (std::filesystem::temp_directory_path() / "parl_td3").string();
  std::filesystem::remove_all(config.run);
  config.deterministic = true;
  config.steps = 12'000;
  config.eval_steps = config.log_steps = 500;  // plays ten episodes greedily, for the column eval_return of metrics.csv
  if (config.algorithm == "td3") {
    auto& td3 = config.settings.as<parl::Td3Config>();
    td3.target_noise = variant.target_noise;
    td3.policy_delay = variant.policy_delay;
  }
  parl::train(config, {.show_status = false});

  const parl::MetricsTable metrics = parl::read_metrics(config.run + "/metrics.csv");
  const std::vector<double> steps = metrics.column("steps"), returns = metrics.column("eval_return");
  size_t row = 0;
  while (row + 1 < steps.size() && !(returns[row] > -250)) ++row;
  std::printf("%-32s above -250 after %6.0f steps, at last %7.1f; Q %6.1f\n", variant.says, steps[row], returns.back(),
              metrics.column("q_mean").back());
  std::fflush(stdout);
  return returns.back();
}

}  // namespace

int main(int argc, char** argv) {
  parl::init(argc, argv);
  std::puts("Pendulum, 12,000 steps: the greedy policy's mean return of ten episodes (doing nothing: -1,200)");
  double last = -1e9;
  for (const Variant& variant : kVariants) {
    if (argc == 1 || std::strcmp(argv[1], variant.name) == 0) last = train(variant);
  }
  return last > -600 ? 0 : 1;
}
