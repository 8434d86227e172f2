// Built without fused multiply-adds, as every task is.
#include "parl/env_mujoco/internal/task.h"

#include <algorithm>

#include "parl/core/check.h"
#include "parl/core/normal.h"
#include "parl/env_mujoco/internal/numpy_math.h"

namespace parl::internal {

MujocoTask::MujocoTask(std::vector<std::string> info_names) : names_(std::move(info_names)), values_(names_.size()) {}

void MujocoTask::set_info(std::initializer_list<double> values) {
  PARL_CHECK_LE(values.size(), values_.size(), "more info values than names");
  std::copy(values.begin(), values.end(), values_.begin());
}

Fold fold_of(const std::string& info_name) {
  if (info_name.starts_with("reward_") || info_name.ends_with("_penalty")) return Fold::kSum;
  return info_name.ends_with("_velocity") ? Fold::kMean : Fold::kLast;
}

void add_uniform(NumpyRng& rng, double scale, std::span<double> values) {
  for (double& value : values) value += rng.uniform(-scale, scale);
}

void add_normal(NumpyRng& rng, double scale, std::span<double> values) {
  for (double& value : values) value += scale * standard_normal(rng);
}

double* put(double* out, std::span<const double> values) { return std::copy(values.begin(), values.end(), out); }

double* put_clipped(double* out, std::span<const double> values, double limit) {
  for (double value : values) *out++ = clip(value, -limit, limit);
  return out;
}

}  // namespace parl::internal
