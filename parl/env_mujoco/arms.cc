// Reacher-v5 and Pusher-v5: an arm's tip to a target, a cylinder to a goal.
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>

#include "parl/env_mujoco/internal/numpy_math.h"
#include "parl/env_mujoco/internal/task.h"

namespace parl::internal {
namespace {

using Vector = std::array<double, 3>;

Vector difference(const mjData& data, int a, int b) {
  Vector out;
  for (size_t i = 0; i < 3; ++i)
    out[i] = data.xpos[3 * static_cast<size_t>(a) + i] - data.xpos[3 * static_cast<size_t>(b) + i];
  return out;
}

// The order of Gymnasium's operations: the negated float32 sum times the weight.
float arm_cost(double weight, std::span<const float> action) {
  return -sum_of_squares(action) * static_cast<float>(weight);
}

class Reacher final : public MujocoTask {
 public:
  Reacher(const MujocoArgs& args, const Simulation& simulation)
      : MujocoTask({"reward_dist", "reward_ctrl"}),
        model_(*simulation.model()),
        data_(*simulation.data()),
        distance_weight_(args.number("reward_dist_weight")),
        control_weight_(args.number("reward_control_weight")),
        tip_(simulation.body("fingertip")),
        target_(simulation.body("target")) {
    simulation.need(4, 4, 1);
  }
  void start(NumpyRng& rng, std::span<double> qpos, std::span<double> qvel) override {
    add_uniform(rng, 0.1, qpos);
    const auto goal = qpos.last(2);
    do {
      for (double& x : goal) x = rng.uniform(-0.2, 0.2);
    } while (!(norm(goal) < 0.2));
    add_uniform(rng, 0.005, qvel);
    std::fill(qvel.end() - 2, qvel.end(), 0.0);
  }
  Outcome evaluate(std::span<const float> action) override {
    const double distance = -norm(difference(data_, tip_, target_)) * distance_weight_;
    const float control = arm_cost(control_weight_, action);
    set_info({distance, control});
    return {distance + control, false};
  }
  size_t observation_size() const override { return static_cast<size_t>(2 + 2 + (model_.nq - 2) + 2 + 2); }
  void observe(double* out) const override {
    for (int i = 0; i < 2; ++i) *out++ = std::cos(data_.qpos[i]);
    for (int i = 0; i < 2; ++i) *out++ = std::sin(data_.qpos[i]);
    out = put(out, {data_.qpos + 2, static_cast<size_t>(model_.nq - 2)});
    out = put(out, {data_.qvel, 2});
    const Vector to_target = difference(data_, tip_, target_);
    put(out, std::span(to_target).first(2));
  }

 private:
  const mjModel& model_;
  const mjData& data_;
  const double distance_weight_, control_weight_;
  const int tip_, target_;
};

class Pusher final : public MujocoTask {
 public:
  Pusher(const MujocoArgs& args, const Simulation& simulation)
      : MujocoTask({"reward_dist", "reward_ctrl", "reward_near"}),
        data_(*simulation.data()),
        near_weight_(args.number("reward_near_weight")),
        distance_weight_(args.number("reward_dist_weight")),
        control_weight_(args.number("reward_control_weight")),
        tip_(simulation.body("tips_arm")),
        object_(simulation.body("object")),
        goal_(simulation.body("goal")) {
    simulation.need(11, 11, 1);
  }
  void start(NumpyRng& rng, std::span<double> qpos, std::span<double> qvel) override {
    std::array<double, 2> cylinder{};
    do {
      cylinder = {rng.uniform(-0.3, 0), 0};
      cylinder[1] = rng.uniform(-0.2, 0.2);
    } while (!(norm(cylinder) > 0.17));
    std::copy(cylinder.begin(), cylinder.end(), qpos.end() - 4);
    std::fill(qpos.end() - 2, qpos.end(), 0.0);
    add_uniform(rng, 0.005, qvel);
    std::fill(qvel.end() - 4, qvel.end(), 0.0);
  }
  Outcome evaluate(std::span<const float> action) override {
    const double near = -norm(difference(data_, object_, tip_)) * near_weight_;
    const double distance = -norm(difference(data_, object_, goal_)) * distance_weight_;
    const float control = arm_cost(control_weight_, action);
    set_info({distance, control, near});
    return {distance + control + near, false};
  }
  size_t observation_size() const override { return 7 + 7 + 3 * 3; }
  void observe(double* out) const override {
    out = put(out, {data_.qpos, 7});
    out = put(out, {data_.qvel, 7});
    for (int body : {tip_, object_, goal_}) out = put(out, {data_.xpos + 3 * static_cast<ptrdiff_t>(body), 3});
  }

 private:
  const mjData& data_;
  const double near_weight_, distance_weight_, control_weight_;
  const int tip_, object_, goal_;
};

}  // namespace

TaskEntry reacher_entry() {
  TaskEntry entry{"Reacher-v5", "reacher.xml", 2, 50, "", {}, nullptr};
  entry.options = {{"reward_dist_weight", "1", "weight of the distance to the target"},
                   {"reward_control_weight", "1", "weight of the squared action"}};
  entry.make = [](const MujocoArgs& args, Simulation& simulation) -> std::unique_ptr<MujocoTask> {
    return std::make_unique<Reacher>(args, simulation);
  };
  return entry;
}

TaskEntry pusher_entry() {
  TaskEntry entry{"Pusher-v5", "pusher_v5.xml", 5, 100, "distance:4", {}, nullptr};
  entry.options = {{"reward_near_weight", "0.5", "weight of the distance between the arm's tip and the cylinder"},
                   {"reward_dist_weight", "1", "weight of the distance between the cylinder and the goal"},
                   {"reward_control_weight", "0.1", "weight of the squared action"}};
  entry.make = [](const MujocoArgs& args, Simulation& simulation) -> std::unique_ptr<MujocoTask> {
    return std::make_unique<Pusher>(args, simulation);
  };
  return entry;
}

}  // namespace parl::internal
