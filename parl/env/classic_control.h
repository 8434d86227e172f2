// The classic control tasks of Gymnasium, with its dynamics, start states, rewards and spaces: the same formulas in the
// same order of double operations, the same generator for the start state. Checked against recorded episodes.
// The classes are the bare tasks; the registered time limits come from register_builtin_envs (TimeLimit).
//
// Sources: Barto, Sutton, Anderson 1983 (CartPole); Sutton 1996 (Acrobot); Moore 1990 (MountainCar).
#pragma once

#include <memory>

#include "parl/core/rng.h"
#include "parl/env/env.h"

namespace parl {

// What the five share: a few doubles of state, a numpy generator, and the rules of the contract.
class ClassicControl : public Env {
 public:
  const EnvSpec& spec() const final { return spec_; }
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) final;
  StepResult step(const Action& action, std::span<std::byte> obs) final;
  void render(Image& out) final;
  bool can_save_state() const final { return true; }
  std::vector<std::byte> save_state() const final;
  void load_state(std::span<const std::byte> state) final;

  // The physical state: Gymnasium's env.unwrapped.state, then what a task adds to it (see each). Setting it starts an
  // episode there.
  std::span<const double> state() const { return state_; }
  void set_state(std::span<const double> state);

 protected:
  ClassicControl(EnvSpec spec, size_t state_size);

  virtual void start(NumpyRng& rng) = 0;                 // fills state_
  virtual StepResult advance(const Action& action) = 0;  // one step of the physics
  virtual void observe(float* obs) const = 0;
  virtual void draw(class Canvas& canvas) const = 0;
  virtual int canvas_width() const = 0;
  virtual int canvas_height() const = 0;

  std::vector<double> state_;

 private:
  const EnvSpec spec_;
  const size_t obs_bytes_;
  NumpyRng rng_;
  bool running_ = false;
};

// state: x, x', theta, theta'.
class CartPole final : public ClassicControl {
 public:
  // sutton_barto_reward: 0 a step and -1 at the fall, instead of 1 a step.
  explicit CartPole(bool sutton_barto_reward = false);

 private:
  void start(NumpyRng& rng) override;
  StepResult advance(const Action& action) override;
  void observe(float* obs) const override;
  void draw(Canvas& canvas) const override;
  int canvas_width() const override { return 600; }
  int canvas_height() const override { return 400; }
  const bool sutton_barto_reward_;
};

// Two links, torque on the joint between them; swing the tip above the line. state: theta1, theta2, theta1', theta2'.
class Acrobot final : public ClassicControl {
 public:
  Acrobot();

 private:
  void start(NumpyRng& rng) override;
  StepResult advance(const Action& action) override;
  void observe(float* obs) const override;
  void draw(Canvas& canvas) const override;
  int canvas_width() const override { return 500; }
  int canvas_height() const override { return 500; }
};

// An underpowered car in a valley, three actions. state: position, velocity.
class MountainCar final : public ClassicControl {
 public:
  explicit MountainCar(double goal_velocity = 0);

 private:
  void start(NumpyRng& rng) override;
  StepResult advance(const Action& action) override;
  void observe(float* obs) const override;
  void draw(Canvas& canvas) const override;
  int canvas_width() const override { return 600; }
  int canvas_height() const override { return 400; }
  const double goal_velocity_;
};

// The same valley with a force in [-1, 1]. state: position, velocity, and 1 once the episode has moved: Gymnasium keeps
// the start state in double precision and everything after the first step in single, and so does this.
class MountainCarContinuous final : public ClassicControl {
 public:
  explicit MountainCarContinuous(double goal_velocity = 0);

 private:
  void start(NumpyRng& rng) override;
  StepResult advance(const Action& action) override;
  template <typename Real>
  StepResult move(float action);
  void observe(float* obs) const override;
  void draw(Canvas& canvas) const override;
  int canvas_width() const override { return 600; }
  int canvas_height() const override { return 400; }
  const double goal_velocity_;
};

// Swing a pendulum up and hold it there, torque in [-2, 2]. state: theta (0 is up), theta', and the
// latest torque, which only the picture shows. Never terminates.
class Pendulum final : public ClassicControl {
 public:
  explicit Pendulum(double gravity = 10.0);

 private:
  void start(NumpyRng& rng) override;
  StepResult advance(const Action& action) override;
  void observe(float* obs) const override;
  void draw(Canvas& canvas) const override;
  int canvas_width() const override { return 500; }
  int canvas_height() const override { return 500; }
  const double gravity_;
};

}  // namespace parl
