// Behaviour cloning: an expert is trained, its episodes are recorded into a file, a new network learns from the file
// alone, and reinforcement learning goes on from the clone.
//   bc
// CartPole; some seconds. The file can also come from elsewhere (docs/demonstrations.md), or from `parl record`.
#include <cstdio>
#include <filesystem>
#include <string>

#include "parl/algorithms/bc.h"
#include "parl/remote/remote.h"
#include "parl/train/evaluate.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/record.h"
#include "parl/train/trainer.h"

namespace {

const std::string kEnv = "CartPole-v1";

std::string place(const std::string& name) {
  return (std::filesystem::temp_directory_path() / "parl_bc" / name).string();
}

// Trains in the run directory `name`; gives the mean return of the greedy policy.
double train(parl::TrainConfig config, const std::string& name) {
  config.run = place(name);
  config.deterministic = true;
  const parl::TrainSummary summary = parl::train(config, {.show_status = false});
  const parl::LoadedRun run = parl::load_run(config.run, false);
  const double greedy = parl::evaluate(*run.algorithm, {.env = kEnv, .episodes = 20}).return_mean;
  std::printf("%-12s %7ld steps, playing greedily %5.1f\n", name.c_str(), long(summary.steps), greedy);
  return greedy;
}

// Learns from a file: nothing is played.
double clone(const std::string& file, const std::string& name) {
  parl::TrainConfig config = parl::program().config_of("bc");
  config.env = kEnv;  // its spaces
  config.model = "mlp";
  config.data = file;
  config.steps = 200'000;  // recorded steps learnt from, each of them many times
  config.actors = 1;
  config.settings.as<parl::BcConfig>().lr = 2e-3;
  return train(config, name);
}

}  // namespace

int main(int argc, char** argv) {
  parl::init(argc, argv);
  std::filesystem::remove_all(place(""));

  parl::TrainConfig ppo = parl::default_config("ppo", kEnv);
  ppo.until_return = 300;
  std::puts("PPO learns until the mean of its last 100 episodes is 300, and is recorded");
  const double expert = train(ppo, "expert");
  const parl::LoadedRun run = parl::load_run(place("expert"), false);
  const parl::RecordedEpisodes recording = parl::record(run.algorithm.get(), {.env = kEnv, .episodes = 20});
  const std::string file = place("expert.safetensors");
  parl::save_recording(file, recording);
  std::printf("%ld steps of %ld episodes: %s\n", long(recording.steps()), long(recording.episodes()), file.c_str());

  std::puts("a new network learns to do what the expert did, without playing");
  const double cloned = clone(file, "clone");

  std::puts("PPO goes on from the clone, until the mean is 475");
  ppo.until_return = 475;
  ppo.init_from = place("clone");  // a run: its network is what this one begins with
  train(ppo, "fine-tuned");
  return cloned > 0.8 * expert ? 0 : 1;
}
