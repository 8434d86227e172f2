#include "parl/env_mujoco/internal/simulation.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "parl/core/check.h"
#include "parl/core/log.h"

namespace parl::internal {
namespace {

// MuJoCo's own handler ends the process. Its frames between here and the caller hold nothing that must be freed.
[[noreturn]] void on_error(const char* text) { raise("MuJoCo: {}", text); }

// MuJoCo's own handler writes MUJOCO_LOG.TXT into the working directory.
void on_warning(const char* text) {
  constexpr int kShown = 5;
  static std::atomic<int> count{0};
  const int number = ++count;
  if (number <= kShown) {
    log().warn("MuJoCo: {}{}", text, number == kShown ? " (further warnings of MuJoCo: PARL_LOG=debug)" : "");
  } else {
    log().debug("MuJoCo: {}", text);
  }
}

// Process-wide, unless the program has handlers of its own.
void set_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (mju_user_error == nullptr) mju_user_error = on_error;
    if (mju_user_warning == nullptr) mju_user_warning = on_warning;
  });
}

// Headers and library must be of one version: structures differ between them.
void check_version() {
  PARL_CHECK(mj_version() == mjVERSION_HEADER,
             "this program was built for MuJoCo {}, but the library that it found is {} ({}); build it again",
             mjVERSION_HEADER, mj_version(), mj_versionString());
}

mjModel* load(const std::string& file) {
  set_handlers();
  check_version();
  static std::mutex mutex;  // MuJoCo keeps the last file that it read
  const std::lock_guard lock(mutex);
  std::array<char, 1000> error{};
  mjModel* model = mj_loadXML(file.c_str(), nullptr, error.data(), static_cast<int>(error.size()));
  if (model == nullptr) raise("MuJoCo cannot read the model '{}': {}", file, error.data());
  return model;
}

}  // namespace

Simulation::Simulation(std::string file) : file_(std::move(file)), model_(load(file_)) {
  try {
    data_ = mj_makeData(model_);
    PARL_CHECK(data_ != nullptr, "MuJoCo has no memory for the model '{}'", file_);
  } catch (...) {
    mj_deleteModel(model_);
    throw;
  }
}

Simulation::~Simulation() {
  mj_deleteData(data_);
  mj_deleteModel(model_);
}

double Simulation::timestep() const { return model_->opt.timestep; }

void Simulation::clear() { mj_resetData(model_, data_); }

void Simulation::start() { mj_forward(model_, data_); }

void Simulation::step(std::span<const float> control, int frame_skip) {
  std::copy(control.begin(), control.end(), data_->ctrl);
  for (int i = 0; i < frame_skip; ++i) mj_step(model_, data_);
  mj_rnePostConstraint(model_, data_);  // contact forces (cfrc_ext)
}

int Simulation::body(const std::string& name) const {
  const int id = mj_name2id(model_, mjOBJ_BODY, name.c_str());
  if (id < 0) raise("the model '{}' has no body '{}'", file_, name);
  return id;
}

void Simulation::need(int positions, int velocities, int controls) const {
  if (model_->nq >= positions && model_->nv >= velocities && model_->nu >= controls) return;
  raise("the model '{}' has {} positions, {} velocities and {} controls; this task needs at least {}, {} and {}", file_,
        model_->nq, model_->nv, model_->nu, positions, velocities, controls);
}

size_t Simulation::state_size() const { return static_cast<size_t>(mj_stateSize(model_, mjSTATE_INTEGRATION)); }

void Simulation::get_state(std::span<double> out) const { mj_getState(model_, data_, out.data(), mjSTATE_INTEGRATION); }

void Simulation::set_state(std::span<const double> state) {
  mj_resetData(model_, data_);
  mj_setState(model_, data_, state.data(), mjSTATE_INTEGRATION);
  mj_forward(model_, data_);  // what a picture needs; it writes the warm start, so:
  mj_setState(model_, data_, state.data(), mjSTATE_INTEGRATION);
}

}  // namespace parl::internal
