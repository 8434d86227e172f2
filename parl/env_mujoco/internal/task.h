// MujocoTask: what tells one v5 environment from another: start states, reward, end, observation, info values.
// A task reads its Simulation and belongs to one MujocoEnv. Everything is in Gymnasium's order of double operations.
// make_* throw on bad options and on a model that the task cannot use.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parl/core/rng.h"
#include "parl/env_mujoco/internal/arguments.h"
#include "parl/env_mujoco/internal/simulation.h"

namespace parl::internal {

class MujocoTask {
 public:
  virtual ~MujocoTask() = default;

  // On entry qpos and qvel are those of the model; draws as Gymnasium's reset_model() does.
  virtual void start(NumpyRng& rng, std::span<double> qpos, std::span<double> qvel) = 0;
  // Keeps where the robot is, for the velocity of the next step. After the reset and after every step.
  virtual void remember() {}
  struct Outcome {
    double reward = 0;
    bool terminated = false;
  };
  virtual Outcome evaluate(std::span<const float> action) = 0;  // after the physics of a step; sets info
  virtual size_t observation_size() const = 0;
  virtual void observe(double* out) const = 0;

  const std::vector<std::string>& info_names() const { return names_; }
  std::span<double> info_values() { return values_; }
  std::span<const double> info_values() const { return values_; }
  std::array<double, 2>& place() { return place_; }  // what remember() keeps

 protected:
  explicit MujocoTask(std::vector<std::string> info_names);
  void set_info(std::initializer_list<double> values);  // in the order of the names

  std::array<double, 2> place_{};

 private:
  std::vector<std::string> names_;
  std::vector<double> values_;
};

// How an info value becomes one figure of an episode.
enum class Fold { kSum, kMean, kLast };
Fold fold_of(const std::string& info_name);

// Parts of a start state, in place: adds uniform(-scale, scale), or scale * standard_normal(), to each value.
void add_uniform(NumpyRng& rng, double scale, std::span<double> values);
void add_normal(NumpyRng& rng, double scale, std::span<double> values);

// Copies `values` to `out` and returns the place after them.
double* put(double* out, std::span<const double> values);
double* put_clipped(double* out, std::span<const double> values, double limit);  // to [-limit, limit]

using MakeTask = std::unique_ptr<MujocoTask> (*)(const MujocoArgs& args, Simulation& simulation);

struct TaskEntry {
  const char* id;
  const char* xml_file;
  int frame_skip;
  int max_episode_steps;
  const char* camera;              // default_camera_config
  std::vector<EnvOption> options;  // besides those of every task
  MakeTask make;
};

TaskEntry half_cheetah_entry();
TaskEntry hopper_entry();
TaskEntry walker2d_entry();
TaskEntry swimmer_entry();
TaskEntry ant_entry();
TaskEntry humanoid_entry();
TaskEntry humanoid_standup_entry();
TaskEntry inverted_pendulum_entry();
TaskEntry inverted_double_pendulum_entry();
TaskEntry reacher_entry();
TaskEntry pusher_entry();

}  // namespace parl::internal
