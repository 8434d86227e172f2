// HalfCheetah-v5, Hopper-v5, Walker2d-v5 (planar) and Swimmer-v5: forward velocity less the cost of the action.
// Sources: Wawrzynski 2009 (cheetah); Erez, Tassa, Todorov 2012 (hopper, walker); Coulom 2002 (swimmer).
#include <mujoco/mujoco.h>

#include <cmath>

#include "parl/env_mujoco/internal/numpy_math.h"
#include "parl/env_mujoco/internal/task.h"

namespace parl::internal {
namespace {

// What the four share.
class Runner : public MujocoTask {
 public:
  void remember() override { place_ = {data().qpos[0], data().qpos[1]}; }

  size_t observation_size() const override { return static_cast<size_t>(model().nq - skipped_ + model().nv); }

 protected:
  // skipped: positions that tell only where the robot is.
  Runner(const MujocoArgs& args, const Simulation& simulation, int skipped, std::vector<std::string> info_names)
      : MujocoTask(std::move(info_names)),
        simulation_(simulation),
        forward_weight_(args.number("forward_reward_weight")),
        control_weight_(args.number("ctrl_cost_weight")),
        noise_(args.size("reset_noise_scale")),
        seconds_(simulation.timestep() * args.whole("frame_skip", 1)),
        skipped_(args.flag("exclude_current_positions_from_observation") ? skipped : 0) {}

  const mjModel& model() const { return *simulation_.model(); }
  const mjData& data() const { return *simulation_.data(); }
  std::span<const double> positions() const { return {data().qpos, static_cast<size_t>(model().nq)}; }
  std::span<const double> velocities() const { return {data().qvel, static_cast<size_t>(model().nv)}; }
  std::span<const double> seen_positions() const { return positions().subspan(static_cast<size_t>(skipped_)); }

  const Simulation& simulation_;
  const double forward_weight_, control_weight_, noise_, seconds_;
  const int skipped_;
};

class HalfCheetah final : public Runner {
 public:
  HalfCheetah(const MujocoArgs& args, const Simulation& simulation)
      : Runner(args, simulation, 1, {"x_position", "x_velocity", "reward_forward", "reward_ctrl"}) {
    simulation.need(2, 1, 1);
  }
  void start(NumpyRng& rng, std::span<double> qpos, std::span<double> qvel) override {
    add_uniform(rng, noise_, qpos);
    add_normal(rng, noise_, qvel);
  }
  Outcome evaluate(std::span<const float> action) override {
    const double x = data().qpos[0], velocity = (x - place_[0]) / seconds_;
    const double forward = forward_weight_ * velocity;
    const float cost = action_cost(control_weight_, action);
    set_info({x, velocity, forward, -cost});
    return {forward - cost, false};
  }
  void observe(double* out) const override { put(put(out, seen_positions()), velocities()); }
};

class Swimmer final : public Runner {
 public:
  Swimmer(const MujocoArgs& args, const Simulation& simulation)
      : Runner(args, simulation, 2,
               {"x_position", "y_position", "distance_from_origin", "x_velocity", "y_velocity", "reward_forward",
                "reward_ctrl"}) {
    simulation.need(2, 1, 1);
  }
  void start(NumpyRng& rng, std::span<double> qpos, std::span<double> qvel) override {
    add_uniform(rng, noise_, qpos);
    add_uniform(rng, noise_, qvel);
  }
  Outcome evaluate(std::span<const float> action) override {
    const double x = data().qpos[0], y = data().qpos[1];
    const double x_velocity = (x - place_[0]) / seconds_, y_velocity = (y - place_[1]) / seconds_;
    const double forward = forward_weight_ * x_velocity;
    const float cost = action_cost(control_weight_, action);
    set_info({x, y, norm(positions().first(2)), x_velocity, y_velocity, forward, -cost});
    return {forward - cost, false};
  }
  void observe(double* out) const override { put(put(out, seen_positions()), velocities()); }
};

// Hopper and Walker2d: a reward for each step on the legs, and an end when the robot falls.
class Walker : public Runner {
 public:
  void start(NumpyRng& rng, std::span<double> qpos, std::span<double> qvel) override {
    add_uniform(rng, noise_, qpos);
    add_uniform(rng, noise_, qvel);
  }
  Outcome evaluate(std::span<const float> action) override {
    const double x = data().qpos[0], velocity = (x - place_[0]) / seconds_;
    const bool healthy = is_healthy();
    const double forward = forward_weight_ * velocity, survive = healthy ? healthy_reward_ : 0.0;
    const float cost = action_cost(control_weight_, action);
    set_info({x, data().qpos[1] - model().qpos0[1], velocity, forward, -cost, survive});
    return {forward + survive - cost, !healthy && ends_};
  }
  void observe(double* out) const override { put_clipped(put(out, seen_positions()), velocities(), 10); }

 protected:
  Walker(const MujocoArgs& args, const Simulation& simulation)
      : Runner(
            args, simulation, 1,
            {"x_position", "z_distance_from_origin", "x_velocity", "reward_forward", "reward_ctrl", "reward_survive"}),
        healthy_reward_(args.number("healthy_reward")),
        ends_(args.flag("terminate_when_unhealthy")),
        z_(args.range("healthy_z_range")),
        angle_(args.range("healthy_angle_range")) {
    simulation.need(3, 1, 1);
  }
  static bool within(double x, const Range& range) { return range.low < x && x < range.high; }
  virtual bool is_healthy() const { return within(data().qpos[1], z_) && within(data().qpos[2], angle_); }

 private:
  const double healthy_reward_;
  const bool ends_;
  const Range z_, angle_;
};

class Walker2d final : public Walker {
 public:
  Walker2d(const MujocoArgs& args, const Simulation& simulation) : Walker(args, simulation) {}
};

class Hopper final : public Walker {
 public:
  Hopper(const MujocoArgs& args, const Simulation& simulation)
      : Walker(args, simulation), state_(args.range("healthy_state_range")) {}

 private:
  bool is_healthy() const override {
    for (double x : positions().subspan(2)) {
      if (!within(x, state_)) return false;
    }
    for (double x : velocities()) {
      if (!within(x, state_)) return false;
    }
    return Walker::is_healthy();
  }
  const Range state_;
};

template <typename Task>
std::unique_ptr<MujocoTask> make(const MujocoArgs& args, Simulation& simulation) {
  return std::make_unique<Task>(args, simulation);
}

std::vector<EnvOption> runner_options(const char* control_weight, const char* noise) {
  return {{"forward_reward_weight", "1", "weight of the forward velocity"},
          {"ctrl_cost_weight", control_weight, "weight of the squared action"},
          {"reset_noise_scale", noise, "size of the random part of a start state"},
          {"exclude_current_positions_from_observation", "true", "leave out where the robot is"}};
}

std::vector<EnvOption> walker_options(const char* z_range, const char* angle_range) {
  std::vector<EnvOption> options = runner_options("0.001", "0.005");
  options.insert(options.end(), {{"healthy_reward", "1", "reward of each step while healthy"},
                                 {"terminate_when_unhealthy", "true", "a fall ends the episode"},
                                 {"healthy_z_range", z_range, "heights that count as healthy, LOW..HIGH"},
                                 {"healthy_angle_range", angle_range, "angles that count as healthy, LOW..HIGH"}});
  return options;
}

}  // namespace

TaskEntry half_cheetah_entry() {
  return {"HalfCheetah-v5", "half_cheetah.xml", 5, 1000, "distance:4", runner_options("0.1", "0.1"), make<HalfCheetah>};
}

TaskEntry hopper_entry() {
  std::vector<EnvOption> options = walker_options("0.7..inf", "-0.2..0.2");
  options.push_back({"healthy_state_range", "-100..100", "values of all else that count as healthy, LOW..HIGH"});
  return {"Hopper-v5",        "hopper.xml", 4, 1000, "distance:3/lookat:0:0:1.15/elevation:-20",
          std::move(options), make<Hopper>};
}

TaskEntry walker2d_entry() {
  return {"Walker2d-v5",
          "walker2d_v5.xml",
          4,
          1000,
          "distance:4/lookat:0:0:1.15/elevation:-20",
          walker_options("0.8..2", "-1..1"),
          make<Walker2d>};
}

TaskEntry swimmer_entry() {
  return {"Swimmer-v5", "swimmer.xml", 4, 1000, "", runner_options("0.0001", "0.1"), make<Swimmer>};
}

}  // namespace parl::internal
