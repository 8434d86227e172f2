// GA3C in one program: environments in processes of their own that hold no network, their actions chosen in this one,
// in batches over all of them.
//   ga3c [inline|thread|process|tcp://host:port]
// CartPole until the mean of 100 episodes reaches 150; prints how many observations a forward pass had.
#include <filesystem>
#include <iostream>

#include "parl/algorithms/ga3c.h"
#include "parl/remote/remote.h"
#include "parl/train/metrics.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

int main(int argc, char** argv) {
  parl::init(argc, argv);

  parl::TrainConfig config = parl::default_config("ga3c", "CartPole-v1");
  config.engine = argc > 1 ? argv[1] : "process";
  config.actors = 4;          // processes with environments
  config.envs_per_actor = 4;  // in each: one call steps them together
  config.max_lag = 4;         // the guard: unrolls with an action older than four updates are dropped
  auto& ga3c = config.settings.as<parl::Ga3cConfig>();
  ga3c.predictors = 1;         // threads that choose actions
  ga3c.prediction_batch = 16;  // of at most so many observations at a time
  ga3c.prediction_wait = 0.2;  // ms that a batch which is not full waits for more
  config.run = (std::filesystem::temp_directory_path() / "parl_ga3c").string();
  std::filesystem::remove_all(config.run);
  config.until_return = 150;

  const parl::TrainSummary summary = parl::train(config);
  const parl::MetricsTable metrics = parl::read_metrics(config.run + "/metrics.csv");
  std::cout << summary.stop_reason << " after " << summary.steps << " steps, " << summary.dropped_rollouts
            << " unrolls too old; observations in a forward pass: " << metrics.column("prediction_batch").back()
            << "\n";
  return summary.stop_reason == "until_return" ? 0 : 1;
}
