#include "parl/train/central_source.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "parl/agent/act_in_env.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/core/clock.h"
#include "parl/train/actor_envs.h"
#include "parl/train/step_envs.h"

namespace parl {
namespace {

PredictionQueue::Options queue_options(const RolloutSource::Options& options, const CentralOptions& central) {
  return {.actors = options.actors,
          .max_rows = central.max_batch,
          .wait = central.wait,
          .lock_step = options.deterministic,
          .first_sequence = options.first_sequence};
}

Shape obs_shape(const ModelSpec& spec, Shape lead) {
  lead.insert(lead.end(), spec.obs_shape.begin(), spec.obs_shape.end());
  return lead;
}

// Copies row b of `from` to row b * to_rows + t of `to`, for all rows of `from`; of `bytes` bytes each.
void scatter_rows(const std::byte* from, std::byte* to, int64_t rows, int64_t to_rows, int64_t t, size_t bytes) {
  for (int64_t b = 0; b < rows; ++b) {
    std::memcpy(to + static_cast<size_t>(b * to_rows + t) * bytes, from + static_cast<size_t>(b) * bytes, bytes);
  }
}

size_t row_bytes(const Array& array) { return array.bytes() / static_cast<size_t>(array.dim(0)); }

void write_finals(std::vector<std::pair<int64_t, std::vector<std::byte>>>& finals, const ModelSpec& spec, Rollout& r) {
  std::sort(finals.begin(), finals.end());
  const auto count = static_cast<int64_t>(finals.size());
  r.final_index = Array::empty(DType::kI64, {count});
  r.final_obs = Array::empty(spec.obs_dtype, obs_shape(spec, {count}));
  for (size_t i = 0; i < finals.size(); ++i) {
    r.final_index.data<int64_t>()[i] = finals[i].first;
    std::memcpy(r.final_obs.data() + i * finals[i].second.size(), finals[i].second.data(), finals[i].second.size());
  }
}

std::string name_of(const ActorConfig& config) { return fmt::format("simulator {}", config.actor); }

}  // namespace

CentralSource::CentralSource(RemoteManager& manager, Options options, CentralOptions central,
                             const std::vector<ActorConfig>& configs, const EnvSpec& env,
                             const PredictorFactory& predictor)
    : manager_(manager),
      options_(options),
      central_(central),
      spec_(model_spec_of(env)),
      weights_(options),
      predictions_(queue_options(options, central)),
      queue_(options.actors),
      replacements_(options.max_replacements) {
  PARL_CHECK_EQ(configs.size(), static_cast<size_t>(options.actors));
  PARL_CHECK_GT(central.predictors, 0, "somebody has to choose actions");
  for (int64_t i = 0; i < central.predictors; ++i) algorithms_.push_back(predictor());
  auto remotes =
      manager_.create_each<Simulator>(options.actors, [&](int i) { return configs[static_cast<size_t>(i)]; });
  for (size_t i = 0; i < configs.size(); ++i) {
    Lane lane;
    lane.config = configs[i];
    lane.simulator = std::move(remotes[i]);
    lane.samplers = make_samplers(configs[i]);
    lane.memory = make_memory(algorithms_[0]->model(), configs[i].envs);
    lane.sequence = options.first_sequence;
    lanes_.push_back(std::move(lane));
  }
}

CentralSource::~CentralSource() { CentralSource::stop(); }

void CentralSource::restore(const std::vector<ActorState>& states, std::vector<Rollout> waiting) {
  PARL_CHECK_EQ(states.size(), lanes_.size(),
                "the checkpoint was written with another number of actors: use the same --actors");
  for (size_t i = 0; i < states.size(); ++i) {
    Lane& lane = lanes_[i];
    const ActorState& state = states[i];
    PARL_CHECK_EQ(state.sampler_positions.size(), lane.samplers.size(),
                  "the saved actor had another number of environments: continue with the same --envs-per-actor");
    for (size_t k = 0; k < lane.samplers.size(); ++k) lane.samplers[k].set_position(state.sampler_positions[k]);
    if (!state.has_env_state) continue;
    lane.simulator->load_state({true, state.env_state});
    lane.obs = state.obs;
    if (lane.memory.defined()) {
      const at::Tensor memory = to_tensor(state.memory);
      PARL_CHECK(memory.sizes() == lane.memory.sizes(),
                 "the saved actor's network had another memory: continue with the same --model");
      lane.memory = memory;
    }
    lane.started = true;
  }
  for (Rollout& r : waiting) {
    const auto actor = static_cast<int>(r.actor);
    queue_.push(actor, std::move(r));
  }
}

void CentralSource::start() {
  for (auto& algorithm : algorithms_) threads_.emplace_back([this, &algorithm] { predict(*algorithm); });
  for (int i = 0; i < actors(); ++i) threads_.emplace_back([this, i] { drive(i); });
}

template <typename F>
auto CentralSource::call(Lane& lane, F&& method) {
  if (options_.timeout <= 0) return method(lane.simulator.operator->());
  const auto timeout = std::chrono::duration<double>(options_.timeout);
  return method(lane.simulator.within(std::chrono::duration_cast<std::chrono::nanoseconds>(timeout)));
}

void CentralSource::drive(int actor) {
  Lane& lane = lanes_[static_cast<size_t>(actor)];
  try {
    for (;;) {
      if (!options_.deterministic && !queue_.wait_free(actor)) return;
      const auto weights = weights_.wait_for(lane.sequence, lane.last_version);
      if (!weights) return;
      try {
        auto rollout = make_rollout(lane, *weights);
        if (!rollout) return;
        lane.last_version = rollout->version;
        rollout->sequence = lane.sequence++;
        predictions_.finish_rollout(actor);
        if (!queue_.push(actor, std::move(*rollout))) return;
      } catch (const RemoteError& error) {
        if (!replace(lane, error)) return;
      }
    }
  } catch (...) {
    queue_.fail(std::current_exception());
  }
}

std::optional<Rollout> CentralSource::make_rollout(Lane& lane, const Versioned<Weights>& weights) {
  const auto begun = Clock::now();
  if (!lane.started) {
    lane.obs = call(lane, [](auto simulator) { return simulator->reset(); });
    forget_where(lane.memory, [](int64_t) { return true; });  // of a simulator that is gone
    lane.started = true;
  }
  Rollout r = new_rollout(lane.config, spec_, lane.memory);
  r.version = std::numeric_limits<int64_t>::max();  // of the oldest step
  const int64_t B = lane.config.envs, T = lane.config.length;
  std::vector<std::pair<int64_t, std::vector<std::byte>>> finals;  // (b * T + t, observation)
  for (int64_t t = 0; t < T; ++t) {
    scatter_rows(lane.obs.data(), r.obs.data(), B, T + 1, t, row_bytes(lane.obs));
    at::Tensor action;
    if (!act(lane, weights, r, t, action)) return std::nullopt;
    const Array actions = to_array(action);
    SimulatorStep step = call(lane, [&](auto simulator) { return simulator->step(actions); });
    record(step, lane, r, t, finals);
    lane.obs = std::move(step.obs);
  }
  scatter_rows(lane.obs.data(), r.obs.data(), B, T + 1, T, row_bytes(lane.obs));
  write_finals(finals, spec_, r);
  r.wall_seconds = seconds_since(begun);
  return r;
}

// Gets the actions of step t and writes what belongs to them. False: the source was stopped.
bool CentralSource::act(Lane& lane, const Versioned<Weights>& weights, Rollout& r, int64_t t, at::Tensor& action) {
  PredictionRequest request;
  request.actor = static_cast<int>(lane.config.actor);
  request.obs = tensor_view(lane.obs);
  request.uniforms = make_uniforms(spec_, lane.config.envs);
  draw_uniforms(lane.samplers, request.uniforms);
  request.memory = lane.memory;
  if (options_.deterministic || options_.on_policy) request.weights = weights;
  if (!predictions_.ask(request)) return false;
  action = request.action.contiguous();
  const at::Tensor logits = request.logits.contiguous();
  const int64_t B = lane.config.envs, T = lane.config.length;
  const auto scatter = [&](const at::Tensor& from, Array& to) {
    scatter_rows(static_cast<const std::byte*>(from.const_data_ptr()), to.data(), B, T, t,
                 static_cast<size_t>(from.nbytes()) / static_cast<size_t>(B));
  };
  scatter(action, r.action);
  scatter(logits, r.behaviour_logits);
  if (request.next_memory.defined()) lane.memory = request.next_memory.clone();
  r.version = std::min(r.version, request.version);
  r.act_seconds += request.seconds;
  return true;
}

void CentralSource::record(const SimulatorStep& step, Lane& lane, Rollout& r, int64_t t,
                           std::vector<std::pair<int64_t, std::vector<std::byte>>>& finals) const {
  const int64_t B = r.unrolls(), T = r.length();
  for (const auto& [from, to] : {std::pair{&step.reward, &r.reward}, std::pair{&step.terminated, &r.terminated},
                                 std::pair{&step.truncated, &r.truncated}}) {
    scatter_rows(from->data(), to->data(), B, T, t, row_bytes(*from));
  }
  forget_where(lane.memory,
               [&](int64_t b) { return step.terminated.data<bool>()[b] || step.truncated.data<bool>()[b]; });
  for (int64_t i = 0; i < step.final_index.size(); ++i) {
    const size_t bytes = row_bytes(step.final_obs);
    const std::byte* last = step.final_obs.data() + static_cast<size_t>(i) * bytes;
    finals.emplace_back(step.final_index.data<int64_t>()[i] * T + t, std::vector<std::byte>(last, last + bytes));
  }
  r.episodes.insert(r.episodes.end(), step.episodes.begin(), step.episodes.end());
  r.env_seconds += step.env_seconds;
}

// False: the source is stopping. Throws when no more replacements are allowed or none can be created.
bool CentralSource::replace(Lane& lane, const std::exception& error) {
  if (weights_.stopped()) return false;
  replacements_.failed(name_of(lane.config), error);
  lane.simulator.reset();
  ++lane.config.generation;
  lane.samplers = make_samplers(lane.config);
  lane.started = false;
  lane.simulator = manager_.create<Simulator>(lane.config);
  replacements_.replaced(name_of(lane.config), options_.deterministic ? kNoLongerExact : "");
  return !weights_.stopped();
}

void CentralSource::predict(Algorithm& algorithm) {
  at::set_num_threads(1);
  int64_t version = -1;
  for (;;) {
    const std::vector<PredictionRequest*> batch = predictions_.take();
    if (batch.empty()) return;
    try {
      answer(algorithm, version, batch);
    } catch (...) {
      for (PredictionRequest* r : batch) r->error = std::current_exception();
    }
    predictions_.answer(batch);
  }
}

void CentralSource::answer(Algorithm& algorithm, int64_t& version, const std::vector<PredictionRequest*>& batch) {
  const torch::NoGradGuard no_grad;
  const Versioned<Weights> weights = batch[0]->weights ? *batch[0]->weights : weights_.newest();
  if (weights.version() != version) {
    algorithm.set_weights(weights.value());
    version = weights.version();
  }
  const auto begun = Clock::now();
  const auto together = [&](at::Tensor PredictionRequest::*part) {
    if (batch.size() == 1 || !(batch[0]->*part).defined()) return batch[0]->*part;
    std::vector<at::Tensor> rows;
    for (const PredictionRequest* r : batch) rows.push_back(r->*part);
    return torch::cat(rows);
  };
  const ActInput in{together(&PredictionRequest::obs), together(&PredictionRequest::uniforms),
                    together(&PredictionRequest::memory)};
  const ActOutput out = act_in_env(algorithm, in, spec_, lanes_[0].config.env);
  const double seconds = seconds_since(begun) / static_cast<double>(out.logits.size(0));
  int64_t row = 0;
  for (PredictionRequest* r : batch) {
    const int64_t rows = r->obs.size(0);
    r->action = out.action.narrow(0, row, rows).cpu();
    r->logits = out.logits.narrow(0, row, rows);
    if (out.state.defined()) r->next_memory = out.state.narrow(0, row, rows);
    r->version = version;
    r->seconds = seconds * static_cast<double>(rows);
    row += rows;
  }
}

LearnStats CentralSource::take_statistics() {
  const PredictionQueue::Figures f = predictions_.take_figures();
  if (options_.deterministic || f.batches == 0) return {};
  return {{"prediction_batch", f.rows}, {"prediction_queue", f.left_share}, {"prediction_wait_ms", f.wait_ms}};
}

bool CentralSource::barrier(std::vector<ActorState>& states, std::vector<Rollout>& waiting) {
  PARL_CHECK(options_.deterministic, "only deterministic runs stop their actors for a checkpoint");
  if (!options_.on_policy) {
    waiting = queue_.wait_all_and_copy();
    if (waiting.empty()) return false;
  }
  states.clear();
  for (Lane& lane : lanes_) {
    ActorState state;
    state.sequence = lane.sequence;
    for (const CounterRng& rng : lane.samplers) state.sampler_positions.push_back(rng.position());
    SimulatorState envs;
    if (lane.started) envs = lane.simulator->save_state();
    state.has_env_state = envs.known;
    if (envs.known) {
      state.env_state = std::move(envs.bytes);
      state.obs = lane.obs;
      if (lane.memory.defined()) state.memory = to_array(lane.memory);
    }
    states.push_back(std::move(state));
  }
  return true;
}

void CentralSource::stop() {
  weights_.stop();
  queue_.close();
  predictions_.close();
  if (!threads_.empty()) manager_.close(options_.shutdown);
  for (auto& t : threads_) t.join();
  threads_.clear();
}

}  // namespace parl
