// Ant-v5: forward velocity and a reward for each healthy step, less the costs of the action and of contact forces.
// Source: Schulman et al. 2015, arXiv 1506.02438.
#include <mujoco/mujoco.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "parl/core/check.h"
#include "parl/env_mujoco/internal/numpy_math.h"
#include "parl/env_mujoco/internal/task.h"

namespace parl::internal {
namespace {

// A body's number or name.
int main_body(const MujocoArgs& args, const Simulation& simulation) {
  const std::string& text = args.text("main_body");
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return simulation.body(text);
  PARL_CHECK(number >= 0 && number < simulation.model()->nbody,
             "environment option 'main_body' is {}; the model has the bodies 0..{}", number,
             simulation.model()->nbody - 1);
  return number;
}

class Ant final : public MujocoTask {
 public:
  Ant(const MujocoArgs& args, const Simulation& simulation)
      : MujocoTask({"x_position", "y_position", "distance_from_origin", "x_velocity", "y_velocity", "reward_forward",
                    "reward_ctrl", "reward_contact", "reward_survive"}),
        model_(*simulation.model()),
        data_(*simulation.data()),
        forward_weight_(args.number("forward_reward_weight")),
        control_weight_(args.number("ctrl_cost_weight")),
        contact_weight_(args.number("contact_cost_weight")),
        healthy_reward_(args.number("healthy_reward")),
        noise_(args.size("reset_noise_scale")),
        seconds_(simulation.timestep() * args.whole("frame_skip", 1)),
        ends_(args.flag("terminate_when_unhealthy")),
        sees_forces_(args.flag("include_cfrc_ext_in_observation")),
        z_(args.range("healthy_z_range")),
        force_range_(args.range("contact_force_range")),
        body_(main_body(args, simulation)),
        skipped_(args.flag("exclude_current_positions_from_observation") ? 2 : 0) {
    simulation.need(3, 1, 1);
  }

  void start(NumpyRng& rng, std::span<double> qpos, std::span<double> qvel) override {
    add_uniform(rng, noise_, qpos);
    add_normal(rng, noise_, qvel);
  }

  void remember() override { place_ = {data_.xpos[3 * body_], data_.xpos[3 * body_ + 1]}; }

  Outcome evaluate(std::span<const float> action) override {
    const double x_velocity = (data_.xpos[3 * body_] - place_[0]) / seconds_;
    const double y_velocity = (data_.xpos[3 * body_ + 1] - place_[1]) / seconds_;
    const bool healthy = is_healthy();
    const double forward = x_velocity * forward_weight_, survive = healthy ? healthy_reward_ : 0.0;
    const float control = action_cost(control_weight_, action);
    const auto squared_force = [&](size_t i) { return force(i) * force(i); };
    const double contact = contact_weight_ * numpy_sum<double>(squared_force, 0, force_count());
    set_info({data_.qpos[0], data_.qpos[1], norm({data_.qpos, 2}), x_velocity, y_velocity, forward, -control, -contact,
              survive});
    return {forward + survive - (control + contact), !healthy && ends_};
  }

  size_t observation_size() const override {
    return static_cast<size_t>(model_.nq + model_.nv - skipped_) + (sees_forces_ ? force_count() - 6 : 0);
  }

  void observe(double* out) const override {
    out = put(out, std::span(data_.qpos, static_cast<size_t>(model_.nq)).subspan(static_cast<size_t>(skipped_)));
    out = put(out, {data_.qvel, static_cast<size_t>(model_.nv)});
    for (size_t i = 6; sees_forces_ && i < force_count(); ++i) *out++ = force(i);  // not the world's
  }

 private:
  // Contact forces as the task counts them, six for each body.
  size_t force_count() const { return 6 * static_cast<size_t>(model_.nbody); }
  double force(size_t i) const { return clip(data_.cfrc_ext[i], force_range_.low, force_range_.high); }
  bool is_healthy() const {
    const auto finite = [](double x) { return std::isfinite(x); };
    return std::all_of(data_.qpos, data_.qpos + model_.nq, finite) &&
           std::all_of(data_.qvel, data_.qvel + model_.nv, finite) && z_.low <= data_.qpos[2] &&
           data_.qpos[2] <= z_.high;
  }

  const mjModel& model_;
  const mjData& data_;
  const double forward_weight_, control_weight_, contact_weight_, healthy_reward_, noise_, seconds_;
  const bool ends_, sees_forces_;
  const Range z_, force_range_;
  const int body_, skipped_;
};

}  // namespace

TaskEntry ant_entry() {
  TaskEntry entry{"Ant-v5", "ant.xml", 5, 1000, "distance:4", {}, nullptr};
  entry.options = {{"forward_reward_weight", "1", "weight of the forward velocity"},
                   {"ctrl_cost_weight", "0.5", "weight of the squared action"},
                   {"contact_cost_weight", "0.0005", "weight of the squared contact forces"},
                   {"healthy_reward", "1", "reward of each step while healthy"},
                   {"main_body", "1", "the body whose velocity counts: number or name"},
                   {"terminate_when_unhealthy", "true", "a fall ends the episode"},
                   {"healthy_z_range", "0.2..1", "heights that count as healthy, LOW..HIGH"},
                   {"contact_force_range", "-1..1", "contact forces are clipped to this, LOW..HIGH"},
                   {"reset_noise_scale", "0.1", "size of the random part of a start state"},
                   {"exclude_current_positions_from_observation", "true", "leave out where the robot is"},
                   {"include_cfrc_ext_in_observation", "true", "observe the contact forces"}};
  entry.make = [](const MujocoArgs& args, Simulation& simulation) -> std::unique_ptr<MujocoTask> {
    return std::make_unique<Ant>(args, simulation);
  };
  return entry;
}

}  // namespace parl::internal
