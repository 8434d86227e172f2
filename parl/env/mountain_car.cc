// MountainCar-v0 and MountainCarContinuous-v0.
#include <algorithm>
#include <array>
#include <cmath>

#include "parl/env/classic_control.h"
#include "parl/env/internal/canvas.h"

namespace parl {
namespace {

constexpr double kMinPosition = -1.2, kMaxPosition = 0.6, kMaxSpeed = 0.07;
constexpr double kForce = 0.001, kPower = 0.0015, kGravity = 0.0025;
constexpr double kGoal = 0.5, kContinuousGoal = 0.45;

EnvSpec mountain_car_spec(bool continuous) {
  EnvSpec spec;
  spec.id = continuous ? "MountainCarContinuous-v0" : "MountainCar-v0";
  spec.observation = Box{DType::kF32, {2}, {kMinPosition, -kMaxSpeed}, {kMaxPosition, kMaxSpeed}};
  if (continuous) {
    spec.action = Box{DType::kF32, {1}, {-1.0}, {1.0}};
  } else {
    spec.action = Discrete{3};
  }
  return spec;
}

EnvSpec with_contract(EnvSpec spec, double goal_velocity) {
  spec.contract = fmt::format("{}, goal velocity {}", spec.id, goal_velocity);
  return spec;
}

double height(double position) { return std::sin(3 * position) * 0.45 + 0.55; }

void draw_valley(Canvas& canvas, double position, double goal) {
  constexpr double kScale = 600 / (kMaxPosition - kMinPosition), kCarWidth = 40, kCarHeight = 20, kClearance = 10;
  const auto at = [](double x) { return Point{(x - kMinPosition) * kScale, height(x) * kScale}; };
  constexpr int kPieces = 99;
  const auto node = [](int i) { return kMinPosition + (kMaxPosition - kMinPosition) * i / kPieces; };
  for (int i = 0; i < kPieces; ++i) canvas.line(at(node(i)), at(node(i + 1)), 1.5, {0, 0, 0});

  const Point car = at(position) + Point{0, kClearance};
  const double slope = std::cos(3 * position);
  std::array<Point, 4> body{Point{-kCarWidth / 2, 0}, Point{-kCarWidth / 2, kCarHeight},
                            Point{kCarWidth / 2, kCarHeight}, Point{kCarWidth / 2, 0}};
  for (Point& corner : body) corner = car + corner.rotated(slope);
  canvas.polygon(body, {0, 0, 0});
  for (double side : {1.0, -1.0}) {
    canvas.circle(car + Point{side * kCarWidth / 4, 0}.rotated(slope), kCarHeight / 2.5, {128, 128, 128});
  }
  const Point foot = at(goal), top = foot + Point{0, 50};
  canvas.line(foot, top, 1.5, {0, 0, 0});
  canvas.polygon(std::array{top, top + Point{0, -10}, top + Point{25, -5}}, {204, 204, 0});
}

}  // namespace

MountainCar::MountainCar(double goal_velocity)
    : ClassicControl(with_contract(mountain_car_spec(false), goal_velocity), 2), goal_velocity_(goal_velocity) {}

void MountainCar::start(NumpyRng& rng) {
  state_[0] = rng.uniform(-0.6, -0.4);
  state_[1] = 0;
}

StepResult MountainCar::advance(const Action& action) {
  double &position = state_[0], &velocity = state_[1];
  velocity += static_cast<double>(action.index - 1) * kForce + std::cos(3 * position) * (-kGravity);
  velocity = std::clamp(velocity, -kMaxSpeed, kMaxSpeed);
  position = std::clamp(position + velocity, kMinPosition, kMaxPosition);
  if (position == kMinPosition && velocity < 0) velocity = 0;
  StepResult result;
  result.terminated = position >= kGoal && velocity >= goal_velocity_;
  result.reward = -1.0f;
  return result;
}

void MountainCar::observe(float* obs) const {
  obs[0] = static_cast<float>(state_[0]);
  obs[1] = static_cast<float>(state_[1]);
}

void MountainCar::draw(Canvas& canvas) const { draw_valley(canvas, state_[0], kGoal); }

MountainCarContinuous::MountainCarContinuous(double goal_velocity)
    : ClassicControl(with_contract(mountain_car_spec(true), goal_velocity), 3), goal_velocity_(goal_velocity) {}

void MountainCarContinuous::start(NumpyRng& rng) {
  state_[0] = rng.uniform(-0.6, -0.4);
  state_[1] = 0;
  state_[2] = 0;
}

StepResult MountainCarContinuous::advance(const Action& action) {
  return state_[2] == 0 ? move<double>(action.values[0]) : move<float>(action.values[0]);
}

// Real: the precision of the state before this step. numpy's rules say what is rounded when: an action inside the
// bounds is a single-precision number that drags its term along, a clipped one is a double.
template <typename Real>
StepResult MountainCarContinuous::move(float action) {
  Real position = static_cast<Real>(state_[0]), velocity = static_cast<Real>(state_[1]);
  const double pull = kGravity * std::cos(static_cast<double>(3 * position));
  if (action >= -1.0f && action <= 1.0f) {
    velocity += static_cast<Real>(action * static_cast<float>(kPower) - static_cast<float>(pull));
  } else {
    velocity += static_cast<Real>((action > 0 ? kPower : -kPower) - pull);
  }
  velocity = std::clamp(velocity, static_cast<Real>(-kMaxSpeed), static_cast<Real>(kMaxSpeed));
  position = std::clamp(position + velocity, static_cast<Real>(kMinPosition), static_cast<Real>(kMaxPosition));
  if (position == static_cast<Real>(kMinPosition) && velocity < 0) velocity = 0;
  StepResult result;
  result.terminated = position >= static_cast<Real>(kContinuousGoal) && velocity >= static_cast<Real>(goal_velocity_);
  const double effort = static_cast<double>(action) * static_cast<double>(action) * 0.1;
  result.reward = static_cast<float>((result.terminated ? 100.0 : 0.0) - effort);
  state_[0] = static_cast<float>(position);
  state_[1] = static_cast<float>(velocity);
  state_[2] = 1;
  return result;
}

void MountainCarContinuous::observe(float* obs) const {
  obs[0] = static_cast<float>(state_[0]);
  obs[1] = static_cast<float>(state_[1]);
}

void MountainCarContinuous::draw(Canvas& canvas) const { draw_valley(canvas, state_[0], kContinuousGoal); }

}  // namespace parl
