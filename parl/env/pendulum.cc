// Pendulum-v1.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "parl/env/classic_control.h"
#include "parl/env/internal/canvas.h"

namespace parl {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kMaxSpeed = 8, kMaxTorque = 2, kStep = 0.05, kMass = 1, kLength = 1;

EnvSpec pendulum_spec(double gravity) {
  EnvSpec spec;
  spec.id = "Pendulum-v1";
  spec.observation = Box{DType::kF32, {3}, {-1, -1, -kMaxSpeed}, {1, 1, kMaxSpeed}};
  spec.action = Box{DType::kF32, {1}, {-kMaxTorque}, {kMaxTorque}};
  spec.contract = fmt::format("Pendulum-v1, g {}", gravity);
  return spec;
}

double normalized(double angle) {  // into [-pi, pi), with the floor modulo of Python
  double rest = std::fmod(angle + kPi, 2 * kPi);
  if (rest < 0) rest += 2 * kPi;
  return rest - kPi;
}

// An arrow along an arc: which way and how hard the motor turns.
void draw_torque(Canvas& canvas, Point middle, double radius, bool counter_clockwise) {
  const Color color{0, 0, 0};
  constexpr int kPieces = 40;
  const double sign = counter_clockwise ? 1 : -1;
  const double begin = kPi / 2, sweep = sign * 1.5 * kPi;
  const auto at = [&](double angle, double r) { return middle + Point{r, 0}.rotated(angle); };
  for (int i = 0; i < kPieces; ++i) {
    canvas.line(at(begin + sweep * i / kPieces, radius), at(begin + sweep * (i + 1) / kPieces, radius), 2.5, color);
  }
  const double end = begin + sweep;
  canvas.polygon(std::array{at(end, radius * 0.82), at(end, radius * 1.18), at(end + sign * 0.35, radius)}, color);
}

}  // namespace

Pendulum::Pendulum(double gravity) : ClassicControl(pendulum_spec(gravity), 3), gravity_(gravity) {}

void Pendulum::start(NumpyRng& rng) {
  state_[0] = rng.uniform(-kPi, kPi);
  state_[1] = rng.uniform(-1.0, 1.0);
  state_[2] = 0;
}

StepResult Pendulum::advance(const Action& action) {
  double &theta = state_[0], &speed = state_[1];
  const float u = std::clamp(action.values[0], static_cast<float>(-kMaxTorque), static_cast<float>(kMaxTorque));
  state_[2] = u;
  const double angle = normalized(theta);
  const double cost = angle * angle + 0.1 * (speed * speed) + static_cast<double>(0.001f * (u * u));
  const float push = static_cast<float>(3.0 / (kMass * (kLength * kLength))) * u;
  speed = speed + (3 * gravity_ / (2 * kLength) * std::sin(theta) + static_cast<double>(push)) * kStep;
  speed = std::clamp(speed, -kMaxSpeed, kMaxSpeed);
  theta = theta + speed * kStep;
  StepResult result;
  result.reward = static_cast<float>(-cost);
  return result;
}

void Pendulum::observe(float* obs) const {
  obs[0] = static_cast<float>(std::cos(state_[0]));
  obs[1] = static_cast<float>(std::sin(state_[0]));
  obs[2] = static_cast<float>(state_[1]);
}

void Pendulum::draw(Canvas& canvas) const {
  constexpr double kScale = 500 / 4.4, kHalfWidth = 0.1 * kScale;
  const Color red{204, 77, 77};
  const Point middle{250, 250};
  const double angle = state_[0] + kPi / 2;
  std::array<Point, 4> rod{Point{0, -kHalfWidth}, Point{0, kHalfWidth}, Point{kScale, kHalfWidth},
                           Point{kScale, -kHalfWidth}};
  for (Point& corner : rod) corner = middle + corner.rotated(angle);
  canvas.polygon(rod, red);
  canvas.circle(middle, kHalfWidth, red);
  canvas.circle(middle + Point{kScale, 0}.rotated(angle), kHalfWidth, red);
  const double strength = std::abs(state_[2]) / kMaxTorque;
  if (strength > 0.02) draw_torque(canvas, middle, 0.45 * kScale * strength, state_[2] > 0);
  canvas.circle(middle, 0.05 * kScale, {0, 0, 0});
}

}  // namespace parl
