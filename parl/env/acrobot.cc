// Acrobot-v1 with the equations of Sutton and Barto's book, one Runge-Kutta step of 0.2 s.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "parl/env/classic_control.h"
#include "parl/env/internal/canvas.h"

namespace parl {
namespace {

using Vector = std::array<double, 4>;  // theta1, theta2 and their velocities

constexpr double kPi = std::numbers::pi;
constexpr double kStep = 0.2, kLength1 = 1, kMass1 = 1, kMass2 = 1, kCenter1 = 0.5, kCenter2 = 0.5, kInertia = 1;
constexpr double kMaxVelocity1 = 4 * kPi, kMaxVelocity2 = 9 * kPi, kGravity = 9.8;

EnvSpec acrobot_spec() {
  EnvSpec spec;
  spec.id = "Acrobot-v1";
  spec.observation = Box{
      DType::kF32, {6}, {-1, -1, -1, -1, -kMaxVelocity1, -kMaxVelocity2}, {1, 1, 1, 1, kMaxVelocity1, kMaxVelocity2}};
  spec.action = Discrete{3};
  spec.contract = "Acrobot-v1, torque -1, 0 or 1, reward -1 a step";
  return spec;
}

// The derivative of the state; `torque` acts on the joint.
Vector derivative(const Vector& s, double torque) {
  const double theta1 = s[0], theta2 = s[1], dtheta1 = s[2], dtheta2 = s[3];
  const double cos2 = std::cos(theta2), sin2 = std::sin(theta2);
  const double d1 = kMass1 * (kCenter1 * kCenter1) +
                    kMass2 * (kLength1 * kLength1 + kCenter2 * kCenter2 + 2 * kLength1 * kCenter2 * cos2) + kInertia +
                    kInertia;
  const double d2 = kMass2 * (kCenter2 * kCenter2 + kLength1 * kCenter2 * cos2) + kInertia;
  const double phi2 = kMass2 * kCenter2 * kGravity * std::cos(theta1 + theta2 - kPi / 2.0);
  const double phi1 = -kMass2 * kLength1 * kCenter2 * (dtheta2 * dtheta2) * sin2 -
                      2 * kMass2 * kLength1 * kCenter2 * dtheta2 * dtheta1 * sin2 +
                      (kMass1 * kCenter1 + kMass2 * kLength1) * kGravity * std::cos(theta1 - kPi / 2) + phi2;
  const double ddtheta2 = (torque + d2 / d1 * phi1 - kMass2 * kLength1 * kCenter2 * (dtheta1 * dtheta1) * sin2 - phi2) /
                          (kMass2 * (kCenter2 * kCenter2) + kInertia - d2 * d2 / d1);
  const double ddtheta1 = -(d2 * ddtheta2 + phi1) / d1;
  return {dtheta1, dtheta2, ddtheta1, ddtheta2};
}

Vector plus(const Vector& s, double factor, const Vector& d) {
  Vector out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = s[i] + factor * d[i];
  return out;
}

Vector runge_kutta(const Vector& s, double torque) {
  const Vector k1 = derivative(s, torque);
  const Vector k2 = derivative(plus(s, kStep / 2.0, k1), torque);
  const Vector k3 = derivative(plus(s, kStep / 2.0, k2), torque);
  const Vector k4 = derivative(plus(s, kStep, k3), torque);
  Vector out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = s[i] + kStep / 6.0 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
  return out;
}

double wrapped(double angle) {  // into [-pi, pi]
  while (angle > kPi) angle -= 2 * kPi;
  while (angle < -kPi) angle += 2 * kPi;
  return angle;
}

}  // namespace

Acrobot::Acrobot() : ClassicControl(acrobot_spec(), 4) {}

void Acrobot::start(NumpyRng& rng) {
  for (double& s : state_) s = static_cast<float>(rng.uniform(-0.1, 0.1));  // Gymnasium rounds to single precision here
}

StepResult Acrobot::advance(const Action& action) {
  const Vector next =
      runge_kutta({state_[0], state_[1], state_[2], state_[3]}, static_cast<double>(action.index) - 1.0);
  state_[0] = wrapped(next[0]);
  state_[1] = wrapped(next[1]);
  state_[2] = std::clamp(next[2], -kMaxVelocity1, kMaxVelocity1);
  state_[3] = std::clamp(next[3], -kMaxVelocity2, kMaxVelocity2);
  StepResult result;
  result.terminated = -std::cos(state_[0]) - std::cos(state_[1] + state_[0]) > 1.0;
  result.reward = result.terminated ? 0.0f : -1.0f;
  return result;
}

void Acrobot::observe(float* obs) const {
  obs[0] = static_cast<float>(std::cos(state_[0]));
  obs[1] = static_cast<float>(std::sin(state_[0]));
  obs[2] = static_cast<float>(std::cos(state_[1]));
  obs[3] = static_cast<float>(std::sin(state_[1]));
  obs[4] = static_cast<float>(state_[2]);
  obs[5] = static_cast<float>(state_[3]);
}

void Acrobot::draw(Canvas& canvas) const {
  constexpr double kScale = 500 / 4.4, kHalfWidth = 0.1 * kScale;
  const Point middle{250, 250};
  canvas.line({0, middle.y + kScale}, {500, middle.y + kScale}, 1, {0, 0, 0});
  const double angle1 = state_[0] - kPi / 2, angle2 = state_[0] + state_[1] - kPi / 2;
  const Point elbow = middle + Point{kScale, 0}.rotated(angle1);
  const std::array<std::pair<Point, double>, 2> links{std::pair{middle, angle1}, std::pair{elbow, angle2}};
  for (const auto& [joint, angle] : links) {
    std::array<Point, 4> link{Point{0, -kHalfWidth}, Point{0, kHalfWidth}, Point{kScale, kHalfWidth},
                              Point{kScale, -kHalfWidth}};
    for (Point& corner : link) corner = joint + corner.rotated(angle);
    canvas.polygon(link, {0, 204, 204});
    canvas.circle(joint, kHalfWidth, {204, 204, 0});
  }
}

}  // namespace parl
