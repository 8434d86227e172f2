// Acting in a vector of environments: the random numbers that sample() takes, and the step with a policy's own actions
// (agent/gaussian.h); the memory of a recurrent one between steps. Thread rule: the vector's owner.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <span>
#include <vector>

#include "parl/agent/gaussian.h"
#include "parl/agent/recurrent.h"
#include "parl/core/rng.h"
#include "parl/env/vector_env.h"

namespace parl {

// The memory of `envs` new episodes, [N, S]; undefined for a network without one.
inline at::Tensor make_memory(Model& model, int64_t envs) {
  RecurrentModel* recurrent = model.recurrent();
  return recurrent ? recurrent->initial_state(envs) : at::Tensor();
}

// Of a memory after a step: zeros in the rows i for which `ended(i)`, those of episodes that the step ended. May be
// undefined; else contiguous, on the CPU.
template <typename Ended>
void forget_where(at::Tensor& memory, const Ended& ended) {
  if (!memory.defined()) return;
  const int64_t rows = memory.size(0), size = memory.size(1);
  float* data = memory.mutable_data_ptr<float>();
  for (int64_t i = 0; i < rows; ++i) {
    if (ended(i)) std::fill_n(data + i * size, size, 0.0f);
  }
}

inline void forget_ended(at::Tensor& memory, std::span<const StepResult> results) {
  forget_where(memory, [&](int64_t i) { return results[static_cast<size_t>(i)].done(); });
}

// A place for what Algorithm::sample() takes: [N], [N, K] for actions of K numbers, or [N, A] for continuous actions.
inline at::Tensor make_uniforms(const ModelSpec& spec, int64_t envs) {
  const auto numbers = static_cast<int64_t>(spec.action_choices.size());
  if (numbers > 0) return at::empty({envs, numbers});
  return spec.action_size > 0 ? at::empty({envs, spec.action_size}) : at::empty({envs});
}

// Row i from sampler i.
inline void draw_uniforms(std::vector<CounterRng>& samplers, at::Tensor& uniforms) {
  float* u = uniforms.mutable_data_ptr<float>();
  const size_t each = static_cast<size_t>(uniforms.numel()) / samplers.size();
  for (size_t i = 0; i < samplers.size() * each; ++i) u[i] = samplers[i / each].uniform();
}

// action: [N] int64, [N, K] int64, or [N, A] float32. `scratch` is reused memory.
inline void step_envs(VectorEnv& envs, const ModelSpec& spec, const at::Tensor& action,
                      const VectorEnv::ObsPlace& place, std::span<StepResult> results, std::vector<float>& scratch) {
  const auto count = static_cast<size_t>(envs.count());
  const at::Tensor own = action.cpu().contiguous();
  if (spec.action_size == 0) {
    envs.step({own.const_data_ptr<int64_t>(), static_cast<size_t>(own.numel())}, {}, place, results);
    return;
  }
  const auto size = static_cast<size_t>(spec.action_size);
  scratch.resize(count * size);
  for (size_t i = 0; i < count; ++i)
    map_action(spec, own.const_data_ptr<float>() + i * size, scratch.data() + i * size);
  envs.step({}, scratch, place, results);
}

}  // namespace parl
