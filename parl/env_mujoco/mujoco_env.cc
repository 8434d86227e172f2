#include "parl/env_mujoco/mujoco_env.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "parl/env/state_io.h"
#include "parl/env_mujoco/internal/renderer.h"
#include "parl/env_mujoco/internal/task.h"

namespace parl {
namespace {

using internal::Fold;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Box action_box(const mjModel& model) {
  Box box{DType::kF32, {model.nu}, {}, {}};
  for (int i = 0; i < model.nu; ++i) {
    const bool limited = model.actuator_ctrllimited[i] != 0;
    box.low.push_back(limited ? static_cast<float>(model.actuator_ctrlrange[2 * i]) : -kInfinity);
    box.high.push_back(limited ? static_cast<float>(model.actuator_ctrlrange[2 * i + 1]) : kInfinity);
  }
  return box;
}

std::span<double> span_of(double* values, int size) { return {values, static_cast<size_t>(size)}; }

}  // namespace

MujocoEnv::MujocoEnv(const internal::MujocoArgs& args, std::unique_ptr<internal::Simulation> simulation,
                     std::unique_ptr<internal::MujocoTask> task)
    : simulation_(std::move(simulation)),
      task_(std::move(task)),
      args_(std::make_unique<internal::MujocoArgs>(args)),
      frame_skip_(args.whole("frame_skip", 1)) {
  const mjModel& model = *simulation_->model();
  spec_.id = args.id();
  spec_.observation = Box{DType::kF32, {static_cast<int64_t>(task_->observation_size())}, {-kInfinity}, {kInfinity}};
  spec_.action = action_box(model);
  spec_.frames_per_step = frame_skip_;
  spec_.contract =
      fmt::format("{}, MuJoCo {}, float32 observations, {}", args.id(), mj_versionString(), args.contract());
  action_size_ = static_cast<size_t>(model.nu);
  obs_bytes_ = spec_.observation.bytes();
  init_qpos_.assign(model.qpos0, model.qpos0 + model.nq);
  init_qvel_.assign(static_cast<size_t>(model.nv), 0.0);
  observation_.resize(task_->observation_size());
  sums_.resize(task_->info_values().size());
}

MujocoEnv::~MujocoEnv() = default;

void MujocoEnv::check_place(std::span<std::byte> obs) const {
  PARL_CHECK_EQ(obs.size(), obs_bytes_, "'{}' writes observations of this size", spec_.id);
}

void MujocoEnv::check_action(const Action& action) const {
  PARL_CHECK_EQ(action.values.size(), action_size_, "'{}' takes this many action values", spec_.id);
  for (float value : action.values)
    PARL_CHECK(!std::isnan(value), "'{}' was given an action that is not a number", spec_.id);
}

void MujocoEnv::write(std::span<std::byte> obs) {
  task_->observe(observation_.data());
  auto* out = reinterpret_cast<float*>(obs.data());
  for (double value : observation_) *out++ = static_cast<float>(value);
}

void MujocoEnv::reset(std::optional<uint64_t> seed, std::span<std::byte> obs) {
  check_place(obs);
  running_ = false;
  if (seed) rng_ = NumpyRng(*seed);
  simulation_->clear();
  const mjModel& model = *simulation_->model();
  mjData& data = *simulation_->data();
  std::copy(init_qpos_.begin(), init_qpos_.end(), data.qpos);
  std::copy(init_qvel_.begin(), init_qvel_.end(), data.qvel);
  task_->start(rng_, span_of(data.qpos, model.nq), span_of(data.qvel, model.nv));
  simulation_->start();
  task_->remember();
  std::fill(sums_.begin(), sums_.end(), 0.0);
  const auto info = task_->info_values();
  std::fill(info.begin(), info.end(), 0.0);
  steps_ = 0;
  reward_ = 0;
  write(obs);
  running_ = true;
}

StepResult MujocoEnv::step(const Action& action, std::span<std::byte> obs) {
  PARL_CHECK(running_, "'{}': step() after the end of an episode or before the first reset(); call reset()", spec_.id);
  check_place(obs);
  check_action(action);
  running_ = false;  // and so it stays if MuJoCo reports an error
  simulation_->step(action.values, frame_skip_);
  const auto outcome = task_->evaluate(action.values);
  task_->remember();
  const auto info = task_->info_values();
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += info[i];
  ++steps_;
  reward_ = outcome.reward;
  write(obs);
  running_ = !outcome.terminated;
  return {static_cast<float>(outcome.reward), outcome.terminated, false};
}

void MujocoEnv::scalars(std::vector<std::pair<std::string, double>>& out) const {
  if (steps_ == 0) return;
  const auto& names = task_->info_names();
  const auto values = std::as_const(*task_).info_values();
  for (size_t i = 0; i < names.size(); ++i) {
    const Fold fold = internal::fold_of(names[i]);
    const double value = fold == Fold::kSum    ? sums_[i]
                         : fold == Fold::kMean ? sums_[i] / static_cast<double>(steps_)
                                               : values[i];
    out.emplace_back(names[i], value);
  }
}

void MujocoEnv::render(Image& out) {
  if (!renderer_) renderer_ = std::make_unique<internal::MujocoRenderer>(*args_, *simulation_);
  renderer_->draw(out);
}

std::vector<std::byte> MujocoEnv::save_state() const {
  std::vector<double> physics(simulation_->state_size());
  simulation_->get_state(physics);
  StateWriter out;
  out.put_bytes(std::as_bytes(std::span(physics)));
  out.put_bytes(std::as_bytes(std::as_const(*task_).info_values()));
  out.put_bytes(std::as_bytes(std::span(sums_)));
  out.put(task_->place());
  out.put(rng_.state());
  out.put(steps_);
  out.put(reward_);
  out.put(running_);
  return out.take();
}

void MujocoEnv::load_state(std::span<const std::byte> state) {
  StateReader in(state);
  std::vector<double> physics(simulation_->state_size());
  NumpyRng::State rng{};
  in.get_bytes(std::as_writable_bytes(std::span(physics)));
  in.get_bytes(std::as_writable_bytes(task_->info_values()));
  in.get_bytes(std::as_writable_bytes(std::span(sums_)));
  in.get(task_->place());
  in.get(rng);
  in.get(steps_);
  in.get(reward_);
  in.get(running_);
  in.finish();
  rng_.set_state(rng);
  simulation_->set_state(physics);
}

std::span<const double> MujocoEnv::qpos() const { return span_of(simulation_->data()->qpos, simulation_->model()->nq); }

std::span<const double> MujocoEnv::qvel() const { return span_of(simulation_->data()->qvel, simulation_->model()->nv); }

const std::vector<std::string>& MujocoEnv::info_names() const { return task_->info_names(); }

std::span<const double> MujocoEnv::info_values() const { return std::as_const(*task_).info_values(); }

}  // namespace parl
