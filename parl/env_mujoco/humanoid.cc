// Humanoid-v5 (walk) and HumanoidStandup-v5 (get up). Source: Tassa, Erez, Todorov 2012.
#include <mujoco/mujoco.h>

#include "parl/env_mujoco/internal/numpy_math.h"
#include "parl/env_mujoco/internal/task.h"

namespace parl::internal {
namespace {

constexpr size_t kRootVelocities = 6;  // of the free joint: no actuator acts on them

std::vector<std::string> with_tendons(std::vector<std::string> names, const Simulation& simulation) {
  for (const char* what : {"tendon_length", "tendon_velocity"}) {
    for (int i = 0; i < simulation.model()->ntendon; ++i) names.push_back(fmt::format("{}_{}", what, i));
  }
  return names;
}

class HumanoidBase : public MujocoTask {
 public:
  void start(NumpyRng& rng, std::span<double> qpos, std::span<double> qvel) override {
    add_uniform(rng, noise_, qpos);
    add_uniform(rng, noise_, qvel);
  }

  size_t observation_size() const override {
    const auto bodies = static_cast<size_t>(model_.nbody - 1), velocities = static_cast<size_t>(model_.nv);
    return static_cast<size_t>(model_.nq - skipped_) + velocities + (sees_inertia_ ? 10 * bodies : 0) +
           (sees_velocity_ ? 6 * bodies : 0) + (sees_actuators_ ? velocities - kRootVelocities : 0) +
           (sees_forces_ ? 6 * bodies : 0);
  }

  void observe(double* out) const override {
    const auto bodies = static_cast<size_t>(model_.nbody - 1), velocities = static_cast<size_t>(model_.nv);
    out = put(out, std::span(data_.qpos, static_cast<size_t>(model_.nq)).subspan(static_cast<size_t>(skipped_)));
    out = put(out, {data_.qvel, velocities});
    // Of every body but the world.
    if (sees_inertia_) out = put(out, {data_.cinert + 10, 10 * bodies});
    if (sees_velocity_) out = put(out, {data_.cvel + 6, 6 * bodies});
    if (sees_actuators_) out = put(out, {data_.qfrc_actuator + kRootVelocities, velocities - kRootVelocities});
    if (sees_forces_) put(out, {data_.cfrc_ext + 6, 6 * bodies});
  }

 protected:
  HumanoidBase(const MujocoArgs& args, const Simulation& simulation, std::vector<std::string> info_names)
      : MujocoTask(with_tendons(std::move(info_names), simulation)),
        simulation_(simulation),
        model_(*simulation.model()),
        data_(*simulation.data()),
        control_weight_(args.number("ctrl_cost_weight")),
        noise_(args.size("reset_noise_scale")),
        skipped_(args.flag("exclude_current_positions_from_observation") ? 2 : 0),
        sees_inertia_(args.flag("include_cinert_in_observation")),
        sees_velocity_(args.flag("include_cvel_in_observation")),
        sees_actuators_(args.flag("include_qfrc_actuator_in_observation")),
        sees_forces_(args.flag("include_cfrc_ext_in_observation")) {
    simulation.need(3, static_cast<int>(kRootVelocities), 1);
  }

  // Unlike the other tasks' in float64, since Gymnasium reads the action back from MuJoCo.
  double control_cost() const {
    return control_weight_ * sum_of_squares(std::span<const double>(data_.ctrl, static_cast<size_t>(model_.nu)));
  }
  double contact_cost(double weight, const Range& range) const {
    const std::span<const double> forces(data_.cfrc_ext, 6 * static_cast<size_t>(model_.nbody));
    return clip(weight * sum_of_squares(forces), range.low, range.high);
  }
  // `values`, then the tendons'.
  void set_humanoid_info(std::initializer_list<double> values) {
    set_info(values);
    const auto tendons = static_cast<size_t>(model_.ntendon);
    double* out = info_values().data() + values.size();
    put(put(out, {data_.ten_length, tendons}), {data_.ten_velocity, tendons});
  }

  const Simulation& simulation_;
  const mjModel& model_;
  const mjData& data_;

 private:
  const double control_weight_, noise_;
  const int skipped_;
  const bool sees_inertia_, sees_velocity_, sees_actuators_, sees_forces_;
};

class Humanoid final : public HumanoidBase {
 public:
  Humanoid(const MujocoArgs& args, const Simulation& simulation)
      : HumanoidBase(args, simulation,
                     {"x_position", "y_position", "distance_from_origin", "x_velocity", "y_velocity", "reward_survive",
                      "reward_forward", "reward_ctrl", "reward_contact"}),
        forward_weight_(args.number("forward_reward_weight")),
        contact_weight_(args.number("contact_cost_weight")),
        healthy_reward_(args.number("healthy_reward")),
        seconds_(simulation.timestep() * args.whole("frame_skip", 1)),
        mass_(numpy_sum<double>([&](size_t i) { return model_.body_mass[i]; }, 0, static_cast<size_t>(model_.nbody))),
        ends_(args.flag("terminate_when_unhealthy")),
        contact_range_(args.range("contact_cost_range")),
        z_(args.range("healthy_z_range")) {}

  void remember() override { place_ = mass_center(); }

  Outcome evaluate(std::span<const float> /*action*/) override {
    const auto center = mass_center();
    const double x_velocity = (center[0] - place_[0]) / seconds_, y_velocity = (center[1] - place_[1]) / seconds_;
    const bool healthy = z_.low < data_.qpos[2] && data_.qpos[2] < z_.high;
    const double forward = forward_weight_ * x_velocity, survive = healthy ? healthy_reward_ : 0.0;
    const double control = control_cost(), contact = contact_cost(contact_weight_, contact_range_);
    set_humanoid_info({data_.qpos[0], data_.qpos[1], norm({data_.qpos, 2}), x_velocity, y_velocity, survive, forward,
                       -control, -contact});
    return {forward + survive - (control + contact), !healthy && ends_};
  }

 private:
  std::array<double, 2> mass_center() const {
    std::array<double, 2> sum{};
    for (int body = 0; body < model_.nbody; ++body) {
      sum[0] += model_.body_mass[body] * data_.xipos[3 * body];
      sum[1] += model_.body_mass[body] * data_.xipos[3 * body + 1];
    }
    return {sum[0] / mass_, sum[1] / mass_};
  }

  const double forward_weight_, contact_weight_, healthy_reward_, seconds_, mass_;
  const bool ends_;
  const Range contact_range_, z_;
};

class HumanoidStandup final : public HumanoidBase {
 public:
  HumanoidStandup(const MujocoArgs& args, const Simulation& simulation)
      : HumanoidBase(
            args, simulation,
            {"x_position", "y_position", "z_distance_from_origin", "reward_linup", "reward_quadctrl", "reward_impact"}),
        impact_weight_(args.number("impact_cost_weight")),
        impact_range_(args.range("impact_cost_range")) {
    args.number("uph_cost_weight");  // not used, but looked at
  }

  Outcome evaluate(std::span<const float> /*action*/) override {
    const double up = data_.qpos[2] / model_.opt.timestep;
    const double control = control_cost(), impact = contact_cost(impact_weight_, impact_range_);
    set_humanoid_info({data_.qpos[0], data_.qpos[1], data_.qpos[2] - model_.qpos0[2], up, -control, -impact});
    return {up - control - impact + 1, false};
  }

 private:
  const double impact_weight_;
  const Range impact_range_;
};

std::vector<EnvOption> with_humanoid_options(std::vector<EnvOption> options) {
  options.insert(options.end(), {{"ctrl_cost_weight", "0.1", "weight of the squared action"},
                                 {"reset_noise_scale", "0.01", "size of the random part of a start state"},
                                 {"exclude_current_positions_from_observation", "true", "leave out where the robot is"},
                                 {"include_cinert_in_observation", "true", "observe masses and inertias"},
                                 {"include_cvel_in_observation", "true", "observe the bodies' velocities"},
                                 {"include_qfrc_actuator_in_observation", "true", "observe the actuators' forces"},
                                 {"include_cfrc_ext_in_observation", "true", "observe the contact forces"}});
  return options;
}

}  // namespace

TaskEntry humanoid_entry() {
  TaskEntry entry{"Humanoid-v5", "humanoid.xml", 5, 1000, "distance:4/lookat:0:0:2/elevation:-20", {}, nullptr};
  entry.options = with_humanoid_options({{"forward_reward_weight", "1.25", "weight of the forward velocity"},
                                         {"contact_cost_weight", "5e-07", "weight of the squared contact forces"},
                                         {"contact_cost_range", "-inf..10", "the contact cost is clipped to this"},
                                         {"healthy_reward", "5", "reward of each step while healthy"},
                                         {"terminate_when_unhealthy", "true", "a fall ends the episode"},
                                         {"healthy_z_range", "1..2", "heights that count as healthy, LOW..HIGH"}});
  entry.make = [](const MujocoArgs& args, Simulation& simulation) -> std::unique_ptr<MujocoTask> {
    return std::make_unique<Humanoid>(args, simulation);
  };
  return entry;
}

TaskEntry humanoid_standup_entry() {
  TaskEntry entry{
      "HumanoidStandup-v5", "humanoidstandup.xml", 5, 1000, "distance:4/lookat:0:0:0.8925/elevation:-20", {}, nullptr};
  entry.options =
      with_humanoid_options({{"uph_cost_weight", "1", "Gymnasium's v5 takes it and does not use it; nor does this"},
                             {"impact_cost_weight", "5e-07", "weight of the squared contact forces"},
                             {"impact_cost_range", "-inf..10", "the contact cost is clipped to this, LOW..HIGH"}});
  entry.make = [](const MujocoArgs& args, Simulation& simulation) -> std::unique_ptr<MujocoTask> {
    return std::make_unique<HumanoidStandup>(args, simulation);
  };
  return entry;
}

}  // namespace parl::internal
