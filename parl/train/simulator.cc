#include "parl/train/simulator.h"

#include <torch/torch.h>

#include <cstring>

#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/core/clock.h"
#include "parl/train/actor_envs.h"
#include "parl/train/step_envs.h"

namespace parl {

struct Simulator::Impl {
  ActorConfig config;
  std::unique_ptr<VectorEnv> envs;
  ModelSpec spec;
  std::vector<StepResult> results;
  std::vector<float> env_actions;

  explicit Impl(ActorConfig c) : config(std::move(c)) {
    at::set_num_threads(1);
    PARL_CHECK_GT(config.envs, 0, "a simulator needs at least one environment");
    envs = make_envs(config);
    spec = model_spec_of(envs->spec());
    results.resize(static_cast<size_t>(config.envs));
  }

  Array make_obs(int64_t count) const {
    Shape shape = envs->spec().observation.shape;
    shape.insert(shape.begin(), count);
    return Array::empty(envs->spec().observation.dtype, shape);
  }
  size_t obs_bytes() const { return envs->spec().observation.bytes(); }
  VectorEnv::ObsPlace rows_of(Array& obs) const {
    return [&obs, bytes = obs_bytes()](int i) { return std::span(obs.data() + static_cast<size_t>(i) * bytes, bytes); };
  }

  void record(SimulatorStep& out) {
    const int64_t B = config.envs;
    out.reward = Array::empty(DType::kF32, {B});
    out.terminated = Array::empty(DType::kBool, {B});
    out.truncated = Array::empty(DType::kBool, {B});
    std::vector<int64_t> finals;
    for (int64_t b = 0; b < B; ++b) {
      const StepResult& r = results[static_cast<size_t>(b)];
      out.reward.data<float>()[b] = r.reward;
      out.terminated.data<bool>()[b] = r.terminated;
      out.truncated.data<bool>()[b] = r.truncated;
      if (r.truncated && !r.terminated) finals.push_back(b);
    }
    out.final_index = Array::from<int64_t>(std::span<const int64_t>(finals), {static_cast<int64_t>(finals.size())});
    out.final_obs = make_obs(static_cast<int64_t>(finals.size()));
    for (size_t i = 0; i < finals.size(); ++i) {
      const auto last = envs->final_observation(static_cast<int>(finals[i]));
      std::memcpy(out.final_obs.data() + i * obs_bytes(), last.data(), obs_bytes());
    }
    envs->take_episodes(out.episodes);
  }
};

Simulator::Simulator(ActorConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator::~Simulator() = default;

Array Simulator::reset() {
  Array obs = impl_->make_obs(impl_->config.envs);
  impl_->envs->reset(impl_->rows_of(obs));
  return obs;
}

SimulatorStep Simulator::step(const Array& actions) {
  SimulatorStep out;
  out.obs = impl_->make_obs(impl_->config.envs);
  {
    const ScopedTimer timer(out.env_seconds);
    step_envs(*impl_->envs, impl_->spec, tensor_view(actions), impl_->rows_of(out.obs), impl_->results,
              impl_->env_actions);
  }
  impl_->record(out);
  return out;
}

SimulatorState Simulator::save_state() {
  SimulatorState state;
  state.known = impl_->envs->can_save_state();
  if (!state.known) return state;
  const auto bytes = impl_->envs->save_state();
  state.bytes.resize(bytes.size());
  std::memcpy(state.bytes.data(), bytes.data(), bytes.size());
  return state;
}

void Simulator::load_state(const SimulatorState& state) {
  if (state.known) impl_->envs->load_state(std::as_bytes(std::span(state.bytes)));
}

}  // namespace parl
