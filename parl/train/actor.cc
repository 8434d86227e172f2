#include "parl/train/actor.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>

#include "parl/agent/act_in_env.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/core/clock.h"
#include "parl/core/log.h"
#include "parl/data/recording.h"
#include "parl/train/actor_envs.h"
#include "parl/train/step_envs.h"

namespace parl {
struct Actor::Impl {
  ActorConfig config;
  std::unique_ptr<VectorEnv> envs;
  std::unique_ptr<Algorithm> algorithm;
  std::vector<CounterRng> samplers;
  int64_t version = -1;
  int64_t sequence = 0;
  Array next_obs;  // [B, ...]: row 0 of the next rollout
  bool started = false;
  std::vector<StepResult> results;
  std::vector<std::pair<int64_t, std::vector<std::byte>>> finals;  // (b * T + t, observation)
  at::Tensor uniforms;                                             // [B], or [B, A] for continuous actions
  ModelSpec spec;
  std::unique_ptr<RecordedUnrolls> recorded;
  std::vector<float> env_actions;  // [B * A]
  at::Tensor memory;               // [B, S]: a recurrent network's, before the next observations
  std::vector<double> returns;     // [B]: discounted, of the episodes so far

  explicit Impl(ActorConfig c) : config(std::move(c)) {
    at::set_num_threads(1);  // parallelism comes from our own threads
    PARL_CHECK_GT(config.envs, 0, "an actor needs at least one environment");
    PARL_CHECK_GT(config.length, 0, "a rollout needs at least one step");
    envs = make_envs(config);
    spec = model_spec_of(envs->spec());
    if (!config.data.empty()) {
      RecordedEpisodes recording = load_recording(config.data);
      recording.check_fits(spec, config.env, config.data);
      clip_for_tanh(recording);
      recorded =
          std::make_unique<RecordedUnrolls>(std::move(recording), generation_seed(config.seed, config.generation),
                                            kRecordedStream + static_cast<uint64_t>(config.actor));
    }
    const AlgorithmEntry& entry = program().algorithm(config.algorithm);
    AnyConfig settings = entry.settings;
    if (!config.settings.empty()) config_from_json(settings.fields(""), config.settings, "the actor's settings");
    algorithm = make_actor(config.algorithm, settings, config.model, config.policies, envs->spec());
    samplers = make_samplers(config);
    results.resize(static_cast<size_t>(config.envs));
    uniforms = make_uniforms(spec, config.envs);
    memory = make_memory(algorithm->model(), config.envs);
    returns.resize(results.size());
    next_obs = Array::empty(spec.obs_dtype, obs_shape({config.envs}));
  }

  // A Gaussian policy's recorded draws are not clipped, and critics must not learn what no environment was given.
  void clip_for_tanh(RecordedEpisodes& recording) const {
    if (!program().algorithm(config.algorithm).tanh_policy) return;
    const int64_t changed = recording.clip_actions(spec);
    if (changed == 0 || config.actor != 0) return;  // each has the file: one says so
    log().info(
        "'{}': {} of {} recorded actions lie outside -1..1, and count as the bounds that '{}' was given for them",
        config.data, changed, recording.steps(), config.env);
  }

  Shape obs_shape(Shape lead) const {
    const Shape& one = envs->spec().observation.shape;
    lead.insert(lead.end(), one.begin(), one.end());
    return lead;
  }
  size_t obs_bytes() const { return envs->spec().observation.bytes(); }

  void take_weights(const Versioned<Weights>& weights) {
    if (weights.version() == version) return;
    algorithm->set_weights(weights.value());
    version = weights.version();
  }

  void start_if_new() {
    if (started) return;
    envs->reset(
        [this](int i) { return std::span(next_obs.data() + static_cast<size_t>(i) * obs_bytes(), obs_bytes()); });
    started = true;
  }

  // Acts on row t of every environment and stores what was done.
  ActOutput act(Rollout& r, const at::Tensor& obs, int64_t t) {
    draw_uniforms(samplers, uniforms);
    ActOutput out = act_in_env(*algorithm, {obs.select(1, t), uniforms, memory}, spec, config.env);
    memory = out.state;
    tensor_view(r.action).select(1, t).copy_(out.action);
    tensor_view(r.behaviour_logits).select(1, t).copy_(out.logits);
    return out;
  }

  void record(Rollout& r, int64_t t) {
    const int64_t T = config.length;
    forget_ended(memory, results);
    for (int64_t b = 0; b < config.envs; ++b) {
      const StepResult& s = results[static_cast<size_t>(b)];
      const int64_t at = b * T + t;
      r.reward.data<float>()[at] = s.reward;
      r.terminated.data<bool>()[at] = s.terminated;
      r.truncated.data<bool>()[at] = s.truncated;
      if (config.return_discount >= 0) add_return(r, static_cast<size_t>(b), s);
      if (s.truncated && !s.terminated) {
        const auto last = envs->final_observation(static_cast<int>(b));
        finals.emplace_back(at, std::vector<std::byte>(last.begin(), last.end()));
      }
    }
  }

  void add_return(Rollout& r, size_t b, const StepResult& s) {
    returns[b] = returns[b] * config.return_discount + s.reward;
    r.returns.add(returns[b]);
    if (s.done()) returns[b] = 0;
  }

  void write_finals(Rollout& r) {
    std::sort(finals.begin(), finals.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const auto count = static_cast<int64_t>(finals.size());
    r.final_index = Array::empty(DType::kI64, {count});
    r.final_obs = Array::empty(envs->spec().observation.dtype, obs_shape({count}));
    for (size_t i = 0; i < finals.size(); ++i) {
      r.final_index.data<int64_t>()[i] = finals[i].first;
      std::memcpy(r.final_obs.data() + i * obs_bytes(), finals[i].second.data(), obs_bytes());
    }
    finals.clear();
  }

  Rollout sample_recorded(Clock::time_point start) {
    Rollout r = recorded->next(config.envs, config.length, spec.policy_size());
    r.actor = config.actor;
    r.sequence = sequence++;
    r.version = version;
    r.env_seconds = r.wall_seconds = seconds_since(start);
    return r;
  }

  Rollout sample(const Versioned<Weights>& weights) {
    const torch::NoGradGuard no_grad;
    const auto start = Clock::now();
    take_weights(weights);
    PARL_CHECK_GE(version, 0, "an actor needs weights before it can act");
    if (recorded) return sample_recorded(start);
    start_if_new();
    Rollout r = new_rollout(config, spec, memory);
    r.version = version;
    r.sequence = sequence++;
    const size_t bytes = obs_bytes();
    const auto T = static_cast<size_t>(config.length);
    const auto place = [&](size_t b, size_t t) { return r.obs.data() + (b * (T + 1) + t) * bytes; };
    const auto B = static_cast<size_t>(config.envs);
    for (size_t b = 0; b < B; ++b) std::memcpy(place(b, 0), next_obs.data() + b * bytes, bytes);
    const at::Tensor obs = tensor_view(r.obs);
    for (size_t t = 0; t < T; ++t) {
      ActOutput out;
      {
        const ScopedTimer timer(r.act_seconds);
        out = act(r, obs, static_cast<int64_t>(t));
      }
      const ScopedTimer timer(r.env_seconds);
      step_envs(
          *envs, spec, out.action, [&](int b) { return std::span(place(static_cast<size_t>(b), t + 1), bytes); },
          results, env_actions);
      record(r, static_cast<int64_t>(t));
    }
    for (size_t b = 0; b < B; ++b) std::memcpy(next_obs.data() + b * bytes, place(b, T), bytes);
    write_finals(r);
    envs->take_episodes(r.episodes);
    r.wall_seconds = seconds_since(start);
    return r;
  }
};

Actor::Actor(ActorConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}
Actor::Actor(Actor&&) noexcept = default;
Actor::~Actor() = default;

Rollout Actor::sample(const Versioned<Weights>& weights) { return impl_->sample(weights); }

PackedRollout Actor::sample_packed(const Versioned<Weights>& weights) { return pack_rollout(sample(weights)); }

ActorState Actor::save_state() {
  ActorState state;
  state.sequence = impl_->sequence;
  for (const CounterRng& rng : impl_->samplers) state.sampler_positions.push_back(rng.position());
  if (impl_->recorded) {
    state.sampler_positions = {impl_->recorded->position()};
    state.has_env_state = true;
    return state;
  }
  state.has_env_state = impl_->started && impl_->envs->can_save_state();
  if (state.has_env_state) {
    const auto bytes = impl_->envs->save_state();
    state.env_state.resize(bytes.size());
    std::memcpy(state.env_state.data(), bytes.data(), bytes.size());
    state.obs = impl_->next_obs;
    if (impl_->memory.defined()) state.memory = to_array(impl_->memory);
    if (impl_->config.return_discount >= 0) state.returns = impl_->returns;
  }
  return state;
}

void Actor::load_state(const ActorState& state) {
  if (impl_->recorded) {
    PARL_CHECK_EQ(state.sampler_positions.size(), 1u,
                  "the saved actor learnt from no recording: continue without --data");
    impl_->sequence = state.sequence;
    impl_->recorded->set_position(state.sampler_positions[0]);
    return;
  }
  PARL_CHECK_EQ(state.sampler_positions.size(), impl_->samplers.size(),
                "the saved actor had another number of environments: continue with the same --envs-per-actor");
  impl_->sequence = state.sequence;
  for (size_t i = 0; i < impl_->samplers.size(); ++i) impl_->samplers[i].set_position(state.sampler_positions[i]);
  if (!state.has_env_state) return;
  impl_->envs->load_state(std::as_bytes(std::span(state.env_state)));
  PARL_CHECK(state.obs.shape() == impl_->next_obs.shape() && state.obs.dtype() == impl_->next_obs.dtype(),
             "the saved actor's observations have another shape: continue with the same environment options");
  if (impl_->memory.defined()) {
    const at::Tensor memory = to_tensor(state.memory);
    PARL_CHECK(memory.sizes() == impl_->memory.sizes(),
               "the saved actor's network had another memory: continue with the same --model");
    impl_->memory = memory;
  }
  if (state.returns.size() == impl_->returns.size()) impl_->returns = state.returns;
  impl_->next_obs = state.obs;
  impl_->started = true;
}

}  // namespace parl
