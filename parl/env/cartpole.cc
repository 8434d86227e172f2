#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "parl/env/classic_control.h"
#include "parl/env/internal/canvas.h"

namespace parl {
namespace {

constexpr double kGravity = 9.8, kPoleMass = 0.1, kTotalMass = 0.1 + 1.0;
constexpr double kHalfLength = 0.5, kPoleMassLength = kPoleMass * kHalfLength;
constexpr double kForce = 10.0, kTau = 0.02;  // newton, seconds a step
constexpr double kAngleLimit = 12 * 2 * std::numbers::pi / 360, kPositionLimit = 2.4;

EnvSpec cartpole_spec(bool sutton_barto_reward) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EnvSpec spec;
  spec.id = "CartPole-v1";
  spec.observation = Box{DType::kF32, {4}, {-4.8, -kInf, -2 * kAngleLimit, -kInf}, {4.8, kInf, 2 * kAngleLimit, kInf}};
  spec.action = Discrete{2};
  spec.contract =
      sutton_barto_reward ? "CartPole-v1, reward 0 a step and -1 at the fall" : "CartPole-v1, reward 1 a step";
  return spec;
}

}  // namespace

CartPole::CartPole(bool sutton_barto_reward)
    : ClassicControl(cartpole_spec(sutton_barto_reward), 4), sutton_barto_reward_(sutton_barto_reward) {}

void CartPole::start(NumpyRng& rng) {
  for (double& s : state_) s = rng.uniform(-0.05, 0.05);
}

StepResult CartPole::advance(const Action& action) {
  double &x = state_[0], &x_dot = state_[1], &theta = state_[2], &theta_dot = state_[3];
  const double force = action.index == 1 ? kForce : -kForce;
  const double cosine = std::cos(theta), sine = std::sin(theta);
  const double temp = (force + kPoleMassLength * (theta_dot * theta_dot) * sine) / kTotalMass;
  const double theta_acc =
      (kGravity * sine - cosine * temp) / (kHalfLength * (4.0 / 3.0 - kPoleMass * (cosine * cosine) / kTotalMass));
  const double x_acc = temp - kPoleMassLength * theta_acc * cosine / kTotalMass;
  x += kTau * x_dot;
  x_dot += kTau * x_acc;
  theta += kTau * theta_dot;
  theta_dot += kTau * theta_acc;

  StepResult result;
  result.terminated = x < -kPositionLimit || x > kPositionLimit || theta < -kAngleLimit || theta > kAngleLimit;
  result.reward = sutton_barto_reward_ ? (result.terminated ? -1.0f : 0.0f) : 1.0f;
  return result;
}

void CartPole::observe(float* obs) const {
  for (size_t i = 0; i < 4; ++i) obs[i] = static_cast<float>(state_[i]);
}

void CartPole::draw(Canvas& canvas) const {
  constexpr double kScale = 600 / (2 * kPositionLimit), kCartWidth = 50, kCartHeight = 30, kPoleWidth = 10;
  const Point cart{state_[0] * kScale + 300, 100}, axle = cart + Point{0, kCartHeight / 4};
  canvas.line({0, 100}, {600, 100}, 1, {0, 0, 0});
  canvas.polygon(
      std::array{cart + Point{-kCartWidth / 2, -kCartHeight / 2}, cart + Point{-kCartWidth / 2, kCartHeight / 2},
                 cart + Point{kCartWidth / 2, kCartHeight / 2}, cart + Point{kCartWidth / 2, -kCartHeight / 2}},
      {0, 0, 0});
  std::array<Point, 4> pole{Point{-kPoleWidth / 2, -kPoleWidth / 2}, Point{-kPoleWidth / 2, kScale - kPoleWidth / 2},
                            Point{kPoleWidth / 2, kScale - kPoleWidth / 2}, Point{kPoleWidth / 2, -kPoleWidth / 2}};
  for (Point& corner : pole) corner = axle + corner.rotated(-state_[2]);
  canvas.polygon(pole, {202, 152, 101});
  canvas.circle(axle, kPoleWidth / 2, {129, 132, 203});
}

}  // namespace parl
