#include "parl/train/presets.h"

#include <algorithm>

#include "parl/core/check.h"
#include "parl/core/config.h"
#include "parl/env_mujoco/mujoco_names.h"
#include "parl/train/program.h"
#include "parl/train/train_config.h"

namespace parl {
namespace {

// Quickest Pong on two cores: each batch is learnt four times with clipped ratios (APPO), drawn step by step. Acting
// and learning alternate: an emulated step costs as much as learning it four times, so both would wait for the cores
// anyway, and at lag 0 the clipped ratios start at 1.
constexpr const char* kPong = R"({
  "env_args": {"preset": "parl"}, "model": "auto",
  "actors": 2, "envs_per_actor": 8, "rollout_length": 128, "max_lag": 0,
  "impala": {
    "gamma": 0.99, "lambda": 0.95, "loss_reduction": "mean", "max_grad_norm": 0.5, "entropy_cost": 0.01,
    "entropy_schedule": "0:0.01,2e6:0",
    "optimizer": "adam", "lr": 1e-3, "eps": 1e-5, "lr_schedule": "0:1e-3,2.5e6:1e-4", "epochs": 4, "minibatches": 8,
    "minibatch_of": "auto", "clip": 0.2, "normalize_advantage": true, "learner_threads": 2
  }
})";

// The original's settings: batches of 1,000 steps, sums, Adam, its learning-rate steps of 20k and 40k updates in agent
// steps.
constexpr const char* kParl = R"({
  "env_args": {"preset": "parl"}, "model": "auto",
  "actors": 2, "envs_per_actor": 10, "rollout_length": 50, "batch_rollouts": 2,
  "impala": {
    "gamma": 0.99, "loss_reduction": "sum", "max_grad_norm": 40, "value_cost": 0.5, "entropy_cost": 0.01,
    "optimizer": "adam", "lr": 1e-3, "eps": 1e-8, "lr_schedule": "step 0:1e-3,2e7:5e-4,4e7:1e-4", "epochs": 1, "minibatches": 1, "clip": 0
  }
})";

// 84x84 with the Nature network, every life an episode, the paper's optimizer (Espeholt et al. 2018, table G.1), whose
// rate falls to 0 over 200 M frames.
constexpr const char* kDeepmind = R"({
  "env_args": {"preset": "deepmind"}, "model": "nature",
  "actors": 2, "envs_per_actor": 16, "rollout_length": 20,
  "impala": {
    "gamma": 0.99, "loss_reduction": "sum", "max_grad_norm": 40, "entropy_cost": 0.01,
    "optimizer": "rmsprop", "lr": 6e-4, "lr_schedule": "0:6e-4,5e7:0", "eps": 0.01, "epochs": 1, "minibatches": 1, "clip": 0
  }
})";

// Returns of up to 500 would let the value's gradient drown the policy's in the shared trunk and in the norm's bound:
// hence the small value_cost.
constexpr const char* kClassic = R"({
  "steps": 1000000, "checkpoint_steps": 50000, "model": "mlp", "actors": 2, "envs_per_actor": 8, "rollout_length": 32,
  "impala": {
    "gamma": 0.99, "lambda": 0.95, "value_cost": 0.01, "loss_reduction": "mean", "max_grad_norm": 0.5, "entropy_cost": 0.01,
    "optimizer": "adam", "lr": 1e-3, "eps": 1e-5, "epochs": 4, "minibatches": 4, "clip": 0.2, "normalize_advantage": true
  }
})";

// A step costs microseconds here, so large batches and a high rate: on Breakout (one seed) better than batches of 1,024
// at 1e-3; Asterix prefers those.
constexpr const char* kPixel = R"({
  "steps": 2000000, "model": "auto", "actors": 2, "envs_per_actor": 32, "rollout_length": 128, "max_lag": 0,
  "impala": {
    "gamma": 0.99, "lambda": 0.95, "loss_reduction": "mean", "max_grad_norm": 0.5, "entropy_cost": 0.01,
    "optimizer": "adam", "lr": 3e-3, "eps": 1e-5, "epochs": 4, "minibatches": 16, "minibatch_of": "auto", "clip": 0.2,
    "normalize_advantage": true
  }
})";

// APPO proper: actors run ahead, V-trace and the clip share the correction.
constexpr const char* kImpalaAppo = R"({
  "env_args": {"preset": "parl"}, "model": "auto",
  "actors": 2, "envs_per_actor": 8, "rollout_length": 128, "max_lag": 2,
  "impala": {
    "gamma": 0.99, "lambda": 0.95, "loss_reduction": "mean", "max_grad_norm": 0.5, "entropy_cost": 0.01,
    "optimizer": "adam", "lr": 5e-4, "eps": 1e-5, "epochs": 2, "minibatches": 8, "minibatch_of": "auto", "clip": 0.2,
    "normalize_advantage": true
  }
})";

constexpr const char* kAppoAtari = R"({
  "env_args": {"preset": "parl"}, "model": "auto",
  "actors": 2, "envs_per_actor": 8, "rollout_length": 128, "max_lag": 2,
  "appo": {"minibatches": 8}
})";

constexpr const char* kAppoPixel = R"({
  "steps": 2000000, "model": "auto", "actors": 2, "envs_per_actor": 32, "rollout_length": 64, "max_lag": 2,
  "appo": {"lr": 2e-3, "minibatches": 8}
})";

constexpr const char* kAppoClassic = R"({
  "steps": 1000000, "checkpoint_steps": 50000, "model": "mlp", "actors": 2, "envs_per_actor": 8, "rollout_length": 32, "max_lag": 2,
  "appo": {"value_cost": 0.01, "lr": 1e-3, "epochs": 4}
})";

// 32 environments of 20 steps in eight groups, so that some step while others are predicted for.
constexpr const char* kGa3cAtari = R"({
  "env_args": {"preset": "parl"}, "model": "auto",
  "actors": 8, "envs_per_actor": 4, "rollout_length": 20, "max_lag": 4,
  "ga3c": {"lambda": 0.95, "entropy_cost": 0.01}
})";

constexpr const char* kGa3cClassic = R"({
  "steps": 1000000, "checkpoint_steps": 50000, "model": "mlp", "actors": 4, "envs_per_actor": 4, "rollout_length": 8, "max_lag": 4,
  "ga3c": {
    "lambda": 0.95, "value_cost": 0.01, "optimizer": "adam", "lr": 2e-3, "normalize_advantage": true
  }
})";

constexpr const char* kPgClassic = R"({
  "steps": 1000000, "checkpoint_steps": 50000, "model": "mlp", "actors": 2, "envs_per_actor": 4, "rollout_length": 64, "max_lag": 0,
  "pg": {"value_cost": 0.01, "lr": 1e-2}
})";

constexpr const char* kEsClassic = R"({
  "steps": 20000000, "model": "mlp", "actors": 2, "envs_per_actor": 1, "deterministic": true,
  "es": {"pairs": 16, "sigma": 0.1, "lr": 0.05}
})";

// 32 environments of 20 steps: batches of 640. Rates as in the field's A2C (RMSProp 7e-4), lambda 0.95.
constexpr const char* kA2cAtari = R"({
  "env_args": {"preset": "parl"}, "model": "auto",
  "actors": 2, "envs_per_actor": 16, "rollout_length": 20, "max_lag": 0,
  "a2c": {
    "gamma": 0.99, "lambda": 0.95, "loss_reduction": "mean", "max_grad_norm": 0.5, "entropy_cost": 0.01,
    "optimizer": "rmsprop", "lr": 7e-4, "eps": 1e-5, "learner_threads": 2
  }
})";

constexpr const char* kA2cClassic = R"({
  "steps": 1000000, "checkpoint_steps": 50000, "model": "mlp", "actors": 2, "envs_per_actor": 8, "rollout_length": 8, "max_lag": 0,
  "a2c": {
    "gamma": 0.99, "lambda": 0.95, "value_cost": 0.01, "loss_reduction": "mean", "max_grad_norm": 0.5, "entropy_cost": 0.01,
    "optimizer": "adam", "lr": 2e-3, "eps": 1e-5, "normalize_advantage": true
  }
})";

constexpr const char* kPpoAtari = R"({
  "env_args": {"preset": "parl"}, "model": "auto",
  "actors": 2, "envs_per_actor": 8, "rollout_length": 128, "max_lag": 0,
  "ppo": {
    "entropy_schedule": "0:0.01,2e6:0", "lr": 1e-3, "lr_schedule": "0:1e-3,2.5e6:1e-4",
    "epochs": 4, "minibatches": 8, "clip": 0.2, "learner_threads": 2
  }
})";

constexpr const char* kPpoClassic = R"({
  "steps": 1000000, "checkpoint_steps": 50000, "model": "mlp", "actors": 2, "envs_per_actor": 8, "rollout_length": 32, "max_lag": 0,
  "ppo": {"value_cost": 0.01, "lr": 1e-3, "epochs": 4, "minibatches": 4, "clip": 0.2}
})";

constexpr const char* kDqnAtari = R"({
  "env_args": {"preset": "parl"}, "model": "auto",
  "actors": 1, "envs_per_actor": 8, "rollout_length": 16,
  "dqn": {"lr": 2.5e-4, "n_step": 3, "dueling": true, "prioritized": true}
})";

// The rate goes to 0, and what played best is kept: Q-learning unlearns a small task now and then.
constexpr const char* kDqnClassic = R"({
  "steps": 300000, "checkpoint_steps": 50000, "eval_steps": 25000,
  "model": "mlp", "actors": 2, "envs_per_actor": 4, "rollout_length": 16,
  "dqn": {
    "lr": 5e-4, "lr_schedule": "0:5e-4,100%:0", "eps": 1e-5, "batch_size": 64, "train_ratio": 16, "target_updates": 500,
    "dueling": true, "n_step": 3, "exploration": "0:1,20000:0.04", "learn_start": 1000, "replay_capacity": 100000
  }
})";

// MinAtar's published settings (Young & Tian 2019, arXiv 1903.03176): an update of 32 after every step, a target
// network that is 1,000 updates old at most, epsilon 1 to 0.1 over 100,000 steps. Its centred RMSProp is Adam here.
constexpr const char* kDqnPixel = R"({
  "steps": 5000000, "model": "auto", "actors": 1, "envs_per_actor": 8, "rollout_length": 8,
  "dqn": {
    "gamma": 0.99, "lr": 2.5e-4, "eps": 1e-5, "batch_size": 32, "train_ratio": 32, "target_updates": 1000,
    "exploration": "0:1,100000:0.1", "learn_start": 5000, "replay_capacity": 100000, "double_q": false
  }
})";

// Hessel et al. 2018, table 1, in agent steps: an update of 32 every four steps, learning after 80,000 frames, a target
// network of 32,000 frames. Layers: the fully connected ones.
constexpr const char* kRainbow = R"({
  "steps": 50000000, "env_args": {"preset": "deepmind"}, "model": "nature",
  "actors": 1, "envs_per_actor": 8, "rollout_length": 20, "checkpoint_steps": 1000000,
  "dqn": {
    "gamma": 0.99, "lr": 6.25e-5, "eps": 1.5e-4, "max_grad_norm": 10, "batch_size": 32, "train_ratio": 8,
    "target_updates": 2000, "learn_start": 20000, "double_q": true, "dueling": true, "n_step": 3,
    "prioritized": true, "priority_alpha": 0.5, "priority_beta": "0:0.4,5e7:1", "replay_capacity": 1000000,
    "distributional": true, "atoms": 51, "v_min": -10, "v_max": 10,
    "noisy": true, "noisy_sigma": 0.5, "noisy_layers": "conv4,policy", "exploration": "0", "eval_epsilon": 0
  }
})";

// Atoms over what a reward of 1 or -1 a step sums to under gamma 0.99: CartPole's returns are above 0, the others'
// below.
constexpr const char* kRainbowClassic = R"({
  "steps": 300000, "checkpoint_steps": 50000, "eval_steps": 25000, "model": "mlp", "actors": 2, "envs_per_actor": 4, "rollout_length": 16,
  "dqn": {
    "lr": 1e-3, "eps": 1e-5, "batch_size": 64, "train_ratio": 16, "target_updates": 200, "learn_start": 1000,
    "double_q": true, "dueling": true, "n_step": 3, "prioritized": true, "priority_alpha": 0.5,
    "priority_beta": "0:0.4,200000:1", "replay_capacity": 50000,
    "distributional": true, "atoms": 101, "v_min": -100, "v_max": 100,
    "noisy": true, "noisy_sigma": 0.5, "exploration": "0:1,2000:0", "eval_epsilon": 0
  }
})";

constexpr const char* kRainbowPixel = R"({
  "steps": 2000000, "model": "auto", "actors": 1, "envs_per_actor": 8, "rollout_length": 16,
  "dqn": {
    "gamma": 0.99, "lr": 2.5e-4, "eps": 1e-5, "batch_size": 32, "train_ratio": 8, "target_updates": 250,
    "learn_start": 5000, "double_q": true, "dueling": true, "n_step": 3, "prioritized": true, "priority_alpha": 0.5,
    "priority_beta": "0:0.4,2e6:1", "replay_capacity": 100000,
    "distributional": true, "atoms": 51, "v_min": -10, "v_max": 40,
    "noisy": true, "noisy_sigma": 0.5, "noisy_layers": "conv2,policy", "exploration": "0", "eval_epsilon": 0
  }
})";

constexpr const char* kA2cPixel = R"({
  "steps": 2000000, "model": "auto", "actors": 2, "envs_per_actor": 32, "rollout_length": 8, "max_lag": 0,
  "a2c": {
    "gamma": 0.99, "lambda": 0.95, "loss_reduction": "mean", "max_grad_norm": 0.5, "entropy_cost": 0.01,
    "optimizer": "adam", "lr": 2e-3, "eps": 1e-5, "normalize_advantage": true
  }
})";

constexpr const char* kPpoPixel = R"({
  "steps": 2000000, "model": "auto", "actors": 2, "envs_per_actor": 32, "rollout_length": 128, "max_lag": 0,
  "ppo": {"entropy_cost": 0.01, "lr": 3e-3, "epochs": 4, "minibatches": 16, "clip": 0.2}
})";

// The authors' settings for Atari and MinAtar (Gallici et al. 2024, appendix D): 128 environments of 32 steps.
constexpr const char* kPqnAtari = R"({
  "env_args": {"preset": "deepmind"}, "model": "nature_norm",
  "actors": 2, "envs_per_actor": 64, "rollout_length": 32, "max_lag": 0,
  "pqn": {"gamma": 0.99, "lambda": 0.65, "lr": 2.5e-4, "epochs": 2, "minibatches": 32, "exploration": "0:1,1e6:0.001"}
})";

constexpr const char* kPqnPixel = R"({
  "steps": 10000000, "model": "minatar_norm", "actors": 2, "envs_per_actor": 64, "rollout_length": 32, "max_lag": 0,
  "pqn": {
    "gamma": 0.99, "lambda": 0.65, "lr": 5e-4, "lr_schedule": "0:5e-4,100%:0", "epochs": 2, "minibatches": 32,
    "exploration": "0:1,1e6:0.05"
  }
})";

constexpr const char* kBcClassic = R"({
  "steps": 200000, "model": "mlp", "actors": 1, "envs_per_actor": 16, "rollout_length": 32, "bc": {"lr": 1e-3}
})";

constexpr const char* kPqnClassic = R"({
  "steps": 500000, "checkpoint_steps": 50000, "model": "mlp_norm", "actors": 2, "envs_per_actor": 8, "rollout_length": 32, "max_lag": 0,
  "pqn": {
    "gamma": 0.99, "lambda": 0.95, "lr": 1e-3, "epochs": 4, "minibatches": 8, "exploration": "0:1,30000:0.02"
  }
})";

// Small returns' worth of value gradient, and a discount of which an upright pendulum's 200 steps need no more.
constexpr const char* kPpoPendulum = R"({
  "steps": 500000, "checkpoint_steps": 50000, "model": "mlp", "actors": 2, "envs_per_actor": 8, "rollout_length": 64, "max_lag": 0,
  "ppo": {"gamma": 0.9, "entropy_cost": 0, "value_cost": 0.01, "lr": 1e-3, "epochs": 10, "minibatches": 8, "clip": 0.2}
})";

// Returns of one: the value's gradient may count fully. One network for all agents, or one each (--policies).
constexpr const char* kPpoMulti = R"({
  "steps": 1000000, "model": "mlp", "actors": 2, "envs_per_actor": 24, "rollout_length": 64, "max_lag": 0,
  "ppo": {"gamma": 0.97, "lr": 1e-3, "epochs": 4, "minibatches": 4, "clip": 0.2, "entropy_cost": 0.01}
})";

// Vectors of joints and velocities (MuJoCo and its like): the networks and rates of SAC's and TD3's papers, for DDPG
// too; one update per step collected.
constexpr const char* kControl = R"({
  "steps": 1000000, "model": "auto", "actors": 1, "envs_per_actor": 4, "rollout_length": 16,
  "ddpg": {"learn_start": 10000}, "td3": {"learn_start": 10000}, "sac": {"learn_start": 10000}
})";

// A task so small that small networks and batches do, at a higher rate.
constexpr const char* kPendulum = R"({
  "steps": 40000, "model": "mlp64", "actors": 1, "envs_per_actor": 4, "rollout_length": 16, "log_steps": 2000,
  "checkpoint_steps": 20000,
  "ddpg": {"lr": 1e-3, "batch_size": 128, "train_ratio": 64, "learn_start": 1000, "replay_capacity": 50000},
  "td3": {"lr": 1e-3, "batch_size": 128, "train_ratio": 64, "learn_start": 1000, "replay_capacity": 50000},
  "sac": {"lr": 1e-3, "batch_size": 128, "train_ratio": 64, "learn_start": 1000, "replay_capacity": 50000}
})";

// Batches of 2,048 steps in minibatches of 64, learnt ten times, observations and rewards normalised: the field's
// settings for PPO on continuous control.
constexpr const char* kPpoMujoco = R"({
  "steps": 1000000, "model": "mlp", "actors": 2, "envs_per_actor": 4, "rollout_length": 256, "max_lag": 0,
  "normalize_observations": true, "normalize_rewards": true,
  "ppo": {
    "gamma": 0.99, "lambda": 0.95, "entropy_cost": 0, "lr": 3e-4, "lr_schedule": "0:3e-4,100%:0", "epochs": 10,
    "minibatches": 32, "clip": 0.2
  }
})";

// No reward before the flag, which single pushes never reach: the first random actions are held for unrolls of 32.
constexpr const char* kMountainCar = R"({
  "steps": 80000, "model": "mlp64", "actors": 1, "envs_per_actor": 4, "rollout_length": 32, "log_steps": 2000,
  "checkpoint_steps": 20000,
  "ddpg": {"batch_size": 128, "train_ratio": 64, "n_step": 5, "learn_start": 10000, "hold_random": true, "replay_capacity": 80000},
  "td3": {"batch_size": 128, "train_ratio": 64, "n_step": 5, "learn_start": 10000, "hold_random": true, "replay_capacity": 80000},
  "sac": {"lr": 1e-3, "batch_size": 128, "train_ratio": 32, "learn_start": 10000, "hold_random": true, "replay_capacity": 80000}
})";

bool is_classic(const std::string& env) {
  return env == "CartPole-v1" || env == "Acrobot-v1" || env == "MountainCar-v0";
}

bool is_mujoco(const std::string& env) {
  return std::any_of(kMujocoNames.begin(), kMujocoNames.end(), [&](const MujocoName& name) { return env == name.id; });
}

}  // namespace

const std::vector<Preset>& presets() {
  static const auto* list = new std::vector<Preset>{
      {"impala", "pong", "default of atari:*: 42x42, batches of 2,048 learnt four times, for few minutes on few cores",
       kPong},
      {"impala", "parl", "the original's settings: 42x42, batches of 1,000, plain IMPALA, Adam", kParl},
      {"impala", "deepmind", "84x84, Nature network, plain IMPALA with the paper's RMSProp", kDeepmind},
      {"impala", "classic", "default of the classic control tasks: small network, each batch learnt four times",
       kClassic},
      {"impala", "appo", "APPO on atari:*: actors run ahead, ratios clipped, batches of 2,048 learnt twice",
       kImpalaAppo},
      {"impala", "pixel", "default of pixel:*: small network, batches of 8,192 learnt four times", kPixel},
      {"appo", "atari", "default of atari:*: 42x42, actors run ahead, batches of 2,048 learnt twice", kAppoAtari},
      {"appo", "pixel", "default of pixel:*: small network, batches of 4,096 learnt twice", kAppoPixel},
      {"appo", "classic", "default of the classic control tasks: small network, batches of 512 learnt four times",
       kAppoClassic},
      {"ga3c", "atari", "default of atari:*: 42x42, 32 environments in eight processes or threads, batches of 640",
       kGa3cAtari},
      {"ga3c", "classic", "default of the classic control tasks: small network, batches of 128", kGa3cClassic},
      {"pg", "classic", "default of the classic control tasks: small network, learnt baseline, batches of 512",
       kPgClassic},
      {"es", "classic", "default of the classic control tasks: small network, 16 pairs in a generation", kEsClassic},
      {"a2c", "atari", "default of atari:*: 42x42, batches of 640, RMSProp", kA2cAtari},
      {"a2c", "classic", "default of the classic control tasks: small network, batches of 128", kA2cClassic},
      {"ppo", "atari", "default of atari:*: 42x42, batches of 2,048 learnt four times", kPpoAtari},
      {"dqn", "atari", "default of atari:*: 42x42, double, dueling, three steps, prioritised", kDqnAtari},
      {"dqn", "classic", "default of the classic control tasks: small network, double, dueling, three steps",
       kDqnClassic},
      {"dqn", "pixel", "default of pixel:*: MinAtar's DQN settings, with Adam", kDqnPixel},
      {"dqn", "rainbow", "atari:*: 84x84, Nature network, all of Rainbow with the paper's settings", kRainbow},
      {"dqn", "rainbow_classic", "the classic control tasks: all of Rainbow, small network", kRainbowClassic},
      {"dqn", "rainbow_pixel", "pixel:*: all of Rainbow", kRainbowPixel},
      {"pqn", "atari", "default of atari:*: 84x84, Nature network with LayerNorm, the authors' settings", kPqnAtari},
      {"pqn", "pixel", "default of pixel:*: small network with LayerNorm, the authors' settings", kPqnPixel},
      {"pqn", "classic", "default of the classic control tasks: small network with LayerNorm", kPqnClassic},
      {"bc", "classic", "default of the classic control tasks: small network, batches of 512", kBcClassic},
      {"a2c", "pixel", "default of pixel:*: batches of 512", kA2cPixel},
      {"ppo", "pixel", "default of pixel:*: batches of 8,192 learnt four times", kPpoPixel},
      {"ppo", "pendulum", "default of Pendulum-v1: continuous actions, a short horizon", kPpoPendulum},
      {"ppo", "multi", "default of multi:*: small network, batches of 3,072 learnt four times", kPpoMulti},
      {"ppo", "mujoco", "default of MuJoCo's tasks: batches of 2,048, observations and rewards normalised", kPpoMujoco},
      {"ppo", "classic", "default of the classic control tasks: small network, batches of 512 learnt four times",
       kPpoClassic},
      {"ddpg", "control", "default of other environments: two layers of 256, one update of 256 per step", kControl},
      {"ddpg", "pendulum", "default of Pendulum-v1: small networks, an update of 128 every second step", kPendulum},
      {"ddpg", "mountaincar", "default of MountainCarContinuous-v0: small networks, held random actions", kMountainCar},
      {"td3", "control", "default of other environments: two layers of 256, one update of 256 per step", kControl},
      {"td3", "pendulum", "default of Pendulum-v1: small networks, an update of 128 every second step", kPendulum},
      {"td3", "mountaincar", "default of MountainCarContinuous-v0: small networks, held random actions", kMountainCar},
      {"sac", "control", "default of other environments: two layers of 256, one update of 256 per step", kControl},
      {"sac", "pendulum", "default of Pendulum-v1: small networks, an update of 128 every second step", kPendulum},
      {"sac", "mountaincar", "default of MountainCarContinuous-v0: small networks, held random actions", kMountainCar},
  };
  return *list;
}

const Preset& preset(const std::string& name, const std::string& algorithm) {
  std::vector<std::string> names, others;
  for (const Preset& p : presets()) {
    if (p.algorithm == algorithm && p.name == name) return p;
    if (p.algorithm == algorithm) names.push_back(p.name);
    if (p.algorithm != algorithm && p.name == name) others.push_back(p.algorithm);
  }
  if (!others.empty()) {
    raise("preset '{}' belongs to {}, not to {}, which has: {}", name, fmt::join(others, ", "), algorithm,
          names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  if (names.empty()) raise("{} has no presets: leave --preset out", algorithm);
  raise("there is no preset '{}'{}; there are: {}", name, did_you_mean(name, names), fmt::join(names, ", "));
}

std::string default_preset(const std::string& env, const std::string& algorithm) {
  const std::string task = env.starts_with("gym:") ? env.substr(4) : env;
  const std::string name = env.starts_with("atari:")               ? (algorithm == "impala" ? "pong" : "atari")
                           : env.starts_with("pixel:")             ? "pixel"
                           : env.starts_with("multi:")             ? "multi"
                           : task == "Pendulum-v1"                 ? "pendulum"
                           : task == "MountainCarContinuous-v0"    ? "mountaincar"
                           : is_classic(task)                      ? "classic"
                           : is_mujoco(task) && algorithm == "ppo" ? "mujoco"
                                                                   : "control";
  for (const Preset& p : presets()) {
    if (p.algorithm == algorithm && p.name == name) return name;
  }
  return "";
}

TrainConfig default_config(const std::string& algorithm, const std::string& env) {
  TrainConfig config = program().config_of(algorithm);
  config.env = env;
  if (const std::string name = default_preset(env, algorithm); !name.empty()) apply_preset(config, name);
  return config;
}

void apply_preset(TrainConfig& config, const std::string& name) {
  const Preset& chosen = preset(name, config.algorithm);
  config_apply(config, chosen.json, "preset " + chosen.name);
}

}  // namespace parl
