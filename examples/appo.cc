// APPO is IMPALA with two settings: every batch is learnt several times (epochs), and the policy may move only so far
// from the one that acted (clip). What each of them does, on CartPole, with the same steps and the same seed:
//   appo
// Some seconds.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "parl/algorithms/impala.h"
#include "parl/remote/remote.h"
#include "parl/train/evaluate.h"
#include "parl/train/presets.h"
#include "parl/train/trainer.h"

namespace {

struct Variant {
  const char* name;
  int64_t epochs;
  double clip;
};

// Trains with 50,000 steps and gives the mean return of the last 100 episodes.
double train(const Variant& variant) {
  parl::TrainConfig config = parl::default_config("impala", "CartPole-v1");
  config.run = (std::filesystem::temp_directory_path() / "parl_appo").string();
  std::filesystem::remove_all(config.run);
  config.deterministic = true;
  config.steps = 50'000;
  auto& impala = config.settings.as<parl::ImpalaConfig>();
  impala.epochs = variant.epochs;
  impala.clip = variant.clip;

  double kl = 0, largest_kl = 0;
  parl::TrainHooks hooks{.show_status = false};
  hooks.on_update = [&](const parl::UpdateInfo& update) {
    for (const auto& [name, value] : *update.stats) {
      if (name != "kl") continue;
      kl += value;
      largest_kl = std::max(largest_kl, value);
    }
  };
  const parl::TrainSummary summary = parl::train(config, hooks);
  const parl::LoadedRun run = parl::load_run(config.run, false);
  const double greedy = parl::evaluate(*run.algorithm, {.env = config.env, .episodes = 20}).return_mean;
  std::printf("%-28s %7.1f %7.1f %12.4f %9.4f\n", variant.name, summary.return_mean_100.value_or(0), greedy,
              kl / static_cast<double>(summary.updates), largest_kl);
  return summary.return_mean_100.value_or(0);
}

}  // namespace

int main(int argc, char** argv) {
  parl::init(argc, argv);
  std::puts("CartPole, 50,000 steps each. kl: how far the policy is from the one that acted, on average and at most");
  std::printf("%-28s %7s %7s %12s %9s\n", "", "return", "greedy", "kl", "kl max");
  const double impala = train({"impala: each batch once", 1, 0});
  train({"four times", 4, 0});
  const double appo = train({"four times, clipped: appo", 4, 0.2});
  return appo > impala ? 0 : 1;
}
