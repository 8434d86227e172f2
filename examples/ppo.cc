// PPO on a task of the user's own with continuous actions, and what normalising its numbers does.
//   ppo
// A lander must come to the origin of a plane and stay: two thrusts in -1..1 a step, observations in metres (hundreds)
// and metres a second (some). With and without --normalize-observations and --normalize-rewards; some seconds.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "parl/algorithms/ppo.h"
#include "parl/core/rng.h"
#include "parl/remote/remote.h"
#include "parl/train/evaluate.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

namespace {

class Lander : public parl::Env {
 public:
  Lander() {
    spec_.id = "Lander-v0";
    spec_.observation = parl::Box{parl::DType::kF32, {4}, {-1e6}, {1e6}};
    spec_.action = parl::Box{parl::DType::kF32, {2}, {-1}, {1}};
    spec_.max_episode_steps = 60;
    spec_.contract = "Lander-v0, a step costs the distance in metres, truncated after 60 steps";
  }
  const parl::EnvSpec& spec() const override { return spec_; }

  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override {
    if (seed) rng_ = parl::CounterRng(*seed, 0);
    for (float& x : at_) x = static_cast<float>(400 * rng_.uniform_double() - 200);
    speed_[0] = speed_[1] = 0;
    steps_ = 0;
    std::memcpy(obs.data(), at_, 4 * sizeof(float));
  }

  parl::StepResult step(const parl::Action& action, std::span<std::byte> obs) override {
    for (size_t i = 0; i < 2; ++i) {
      speed_[i] += 2 * std::clamp(action.values[i], -1.0f, 1.0f);
      at_[i] += speed_[i];
    }
    std::memcpy(obs.data(), at_, 4 * sizeof(float));
    const bool over = ++steps_ >= spec_.max_episode_steps;
    return {.reward = -std::hypot(at_[0], at_[1]), .truncated = over};
  }

 private:
  parl::EnvSpec spec_;
  parl::CounterRng rng_{0, 0};
  float at_[2] = {}, speed_[2] = {};
  int64_t steps_ = 0;
};

// The greedy policy's mean distance from the origin after 60,000 steps of training.
double train(bool normalize) {
  parl::TrainConfig config = parl::program().config_of("ppo");
  config.env = "Lander-v0";
  config.model = "mlp";  // two hidden layers of 64 with tanh; a Gaussian policy, since the actions are a Box
  config.run = (std::filesystem::temp_directory_path() / "parl_ppo").string();
  std::filesystem::remove_all(config.run);
  config.deterministic = true;
  config.normalize_observations = config.normalize_rewards = normalize;
  config.steps = 60'000;
  config.actors = 2;
  config.envs_per_actor = 8;
  config.rollout_length = 60;
  auto& ppo = config.settings.as<parl::PpoConfig>();
  ppo.gamma = 0.95;
  ppo.lr = 1e-3;
  ppo.entropy_cost = 0;
  ppo.epochs = 10;
  ppo.minibatches = 8;
  parl::train(config, {.show_status = false});
  const parl::LoadedRun run = parl::load_run(config.run, false);
  return -parl::evaluate(*run.algorithm, {.env = config.env, .episodes = 20}).return_mean / 60;
}

}  // namespace

int main(int argc, char** argv) {
  parl::set_program([](parl::Program& program) {
    program.envs.add("Lander-v0", "come to the origin",
                     [](const parl::EnvRequest&) { return std::make_unique<Lander>(); });
  });
  parl::init(argc, argv);
  std::puts("PPO, 60,000 steps; then 20 episodes of the greedy policy");
  const double raw = train(false);
  std::printf("numbers as they are:       %6.1f m from the origin on average\n", raw);
  const double normalized = train(true);
  std::printf("observations and rewards\nnormalised:                %6.1f m\n", normalized);
  return normalized < 60 && normalized < raw ? 0 : 1;
}
