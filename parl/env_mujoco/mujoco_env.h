// MujocoEnv: one of Gymnasium's v5 tasks with Gymnasium's numbers.
//
// Call order, as Gymnasium's: reset is mj_resetData, the start state into qpos and qvel, mj_forward; a step is the
//   action into ctrl, mj_step frame_skip times, mj_rnePostConstraint. Rewards, ends and info values follow from that in
//   the same order of operations as numpy's, so that with the same MuJoCo they are Gymnasium's to the bit.
// Observations: computed in float64 like Gymnasium's, given as float32, which is what networks take. observation() has
//   them before that. Actions: float32, beyond their bounds clamped by MuJoCo alone; costs count them as given.
// Start states: numpy's generator (core/rng.h, core/normal.h): reset(seed) gives Gymnasium's.
// Scalars of an episode: Gymnasium's info values: reward_* and *_penalty summed up, *_velocity averaged over the steps,
//   all others as they are at the end.
// State: MuJoCo's integration state with the warm start, the generator and the sums. No allocation per step.
// Errors: what MuJoCo itself calls an error becomes parl::Error, and the next call must be reset(); its warnings (such
//   as an unstable simulation) go to the log, the first few as warnings.
// Thread rule: an object belongs to one thread at a time. Each has its own model and data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parl/core/rng.h"
#include "parl/env/env.h"

namespace parl {

namespace internal {
class MujocoArgs;
class MujocoRenderer;
class MujocoTask;
class Simulation;
}  // namespace internal

class MujocoEnv final : public Env {
 public:
  // From make_mujoco_env() (mujoco.h).
  MujocoEnv(const internal::MujocoArgs& args, std::unique_ptr<internal::Simulation> simulation,
            std::unique_ptr<internal::MujocoTask> task);
  ~MujocoEnv() override;

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override;
  StepResult step(const Action& action, std::span<std::byte> obs) override;
  void scalars(std::vector<std::pair<std::string, double>>& out) const override;
  // Through MuJoCo's own renderer, offscreen: needs EGL or OSMesa on this machine, else an error that says so.
  void render(Image& out) override;
  bool can_save_state() const override { return true; }
  std::vector<std::byte> save_state() const override;
  void load_state(std::span<const std::byte> state) override;

  // For looking inside, as the golden tests do. Views: valid until the next call.
  std::span<const double> qpos() const;
  std::span<const double> qvel() const;
  std::span<const double> observation() const { return observation_; }
  double reward() const { return reward_; }            // of the last step, before it became float32
  const std::vector<std::string>& info_names() const;  // Gymnasium's keys; "name_0", ... for arrays
  std::span<const double> info_values() const;         // of the last step

 private:
  void check_place(std::span<std::byte> obs) const;
  void check_action(const Action& action) const;
  void write(std::span<std::byte> obs);

  std::unique_ptr<internal::Simulation> simulation_;
  std::unique_ptr<internal::MujocoTask> task_;
  std::unique_ptr<internal::MujocoRenderer> renderer_;  // made by the first render()
  EnvSpec spec_;
  const std::unique_ptr<internal::MujocoArgs> args_;
  const int frame_skip_;
  size_t action_size_ = 0, obs_bytes_ = 0;

  NumpyRng rng_;
  std::vector<double> init_qpos_, init_qvel_, observation_;
  std::vector<double> sums_;  // of the info values over the episode
  int64_t steps_ = 0;
  double reward_ = 0;
  bool running_ = false;
};

}  // namespace parl
