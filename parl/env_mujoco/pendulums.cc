// InvertedPendulum-v5 and InvertedDoublePendulum-v5: keep one or two poles upright on a cart.
// Source: Barto, Sutton, Anderson 1983. Built with -fno-builtin-pow: numpy's x ** 2 is pow(), not x * x.
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>

#include "parl/env_mujoco/internal/numpy_math.h"
#include "parl/env_mujoco/internal/task.h"

namespace parl::internal {
namespace {

class InvertedPendulum final : public MujocoTask {
 public:
  InvertedPendulum(const MujocoArgs& args, const Simulation& simulation)
      : MujocoTask({"reward_survive"}),
        model_(*simulation.model()),
        data_(*simulation.data()),
        noise_(args.size("reset_noise_scale")) {
    simulation.need(2, 1, 1);
  }
  void start(NumpyRng& rng, std::span<double> qpos, std::span<double> qvel) override {
    add_uniform(rng, noise_, qpos);
    add_uniform(rng, noise_, qvel);
  }
  Outcome evaluate(std::span<const float> /*action*/) override {
    const auto finite = [](double x) { return std::isfinite(x); };
    const bool upright = std::all_of(data_.qpos, data_.qpos + model_.nq, finite) &&
                         std::all_of(data_.qvel, data_.qvel + model_.nv, finite) && !(std::abs(data_.qpos[1]) > 0.2);
    const double reward = upright ? 1 : 0;
    set_info({reward});
    return {reward, !upright};
  }
  size_t observation_size() const override { return static_cast<size_t>(model_.nq + model_.nv); }
  void observe(double* out) const override {
    out = put(out, {data_.qpos, static_cast<size_t>(model_.nq)});
    put(out, {data_.qvel, static_cast<size_t>(model_.nv)});
  }

 private:
  const mjModel& model_;
  const mjData& data_;
  const double noise_;
};

class InvertedDoublePendulum final : public MujocoTask {
 public:
  InvertedDoublePendulum(const MujocoArgs& args, const Simulation& simulation)
      : MujocoTask({"reward_survive", "distance_penalty", "velocity_penalty"}),
        model_(*simulation.model()),
        data_(*simulation.data()),
        healthy_reward_(args.number("healthy_reward")),
        noise_(args.size("reset_noise_scale")) {
    simulation.need(3, 3, 1);
    if (model_.nsite < 1) raise("the model '{}' has no site: this task needs one at the tip", simulation.file());
  }
  void start(NumpyRng& rng, std::span<double> qpos, std::span<double> qvel) override {
    add_uniform(rng, noise_, qpos);
    add_normal(rng, noise_, qvel);
  }
  Outcome evaluate(std::span<const float> /*action*/) override {
    const double x = data_.site_xpos[0], height = data_.site_xpos[2];
    const bool fallen = height <= 1;
    const double distance = 0.01 * square(x) + square(height - 2);
    const double velocity = 1e-3 * square(data_.qvel[1]) + 5e-3 * square(data_.qvel[2]);
    const double survive = fallen ? 0.0 : healthy_reward_;
    set_info({survive, -distance, -velocity});
    return {survive - distance - velocity, fallen};
  }
  size_t observation_size() const override { return static_cast<size_t>(1 + 2 * (model_.nq - 1) + model_.nv + 1); }
  void observe(double* out) const override {
    *out++ = data_.qpos[0];
    for (int i = 1; i < model_.nq; ++i) *out++ = std::sin(data_.qpos[i]);
    for (int i = 1; i < model_.nq; ++i) *out++ = std::cos(data_.qpos[i]);
    out = put_clipped(out, {data_.qvel, static_cast<size_t>(model_.nv)}, 10);
    *out = clip(data_.qfrc_constraint[0], -10, 10);
  }

 private:
  static double square(double x) { return std::pow(x, 2.0); }

  const mjModel& model_;
  const mjData& data_;
  const double healthy_reward_, noise_;
};

}  // namespace

TaskEntry inverted_pendulum_entry() {
  TaskEntry entry{"InvertedPendulum-v5", "inverted_pendulum.xml", 2, 1000, "distance:2.04", {}, nullptr};
  entry.options = {{"reset_noise_scale", "0.01", "size of the random part of a start state"}};
  entry.make = [](const MujocoArgs& args, Simulation& simulation) -> std::unique_ptr<MujocoTask> {
    return std::make_unique<InvertedPendulum>(args, simulation);
  };
  return entry;
}

TaskEntry inverted_double_pendulum_entry() {
  TaskEntry entry{"InvertedDoublePendulum-v5",
                  "inverted_double_pendulum.xml",
                  5,
                  1000,
                  "distance:4.1225/lookat:0:0:0.1225",
                  {},
                  nullptr};
  entry.options = {{"healthy_reward", "10", "reward of each step while upright"},
                   {"reset_noise_scale", "0.1", "size of the random part of a start state"}};
  entry.make = [](const MujocoArgs& args, Simulation& simulation) -> std::unique_ptr<MujocoTask> {
    return std::make_unique<InvertedDoublePendulum>(args, simulation);
  };
  return entry;
}

}  // namespace parl::internal
