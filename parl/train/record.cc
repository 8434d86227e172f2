#include "parl/train/record.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "parl/agent/categorical.h"
#include "parl/agent/obs_parts.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/env/vector_env.h"
#include "parl/train/actor.h"
#include "parl/train/episode_quota.h"
#include "parl/train/evaluate.h"
#include "parl/train/program.h"
#include "parl/train/step_envs.h"

namespace parl {
namespace {

constexpr uint64_t kRecordStream = 3'000'000'019;  // apart from training's and evaluation's

// An episode as it goes, and all that are whole.
struct Episodes {
  std::vector<std::byte> obs, action, final_obs;
  std::vector<float> reward;
  std::vector<int64_t> lengths;
  std::vector<bool> terminated;

  void move_to(Episodes& all) {
    const auto append = [](auto& to, auto& from) {
      to.insert(to.end(), from.begin(), from.end());
      from.clear();
    };
    append(all.obs, obs);
    append(all.action, action);
    append(all.final_obs, final_obs);
    append(all.reward, reward);
    append(all.lengths, lengths);
    append(all.terminated, terminated);
  }
};

void append(std::vector<std::byte>& to, const void* from, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(from);
  to.insert(to.end(), first, first + bytes);
}

Array array_of(DType dtype, Shape shape, const std::vector<std::byte>& bytes) {
  Array out = Array::empty(dtype, std::move(shape));
  PARL_CHECK_EQ(out.bytes(), bytes.size());
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

class Recorder {
 public:
  Recorder(Algorithm* algorithm, const RecordOptions& options)
      : algorithm_(algorithm),
        options_(options),
        request_{.id = options.env, .args = options.env_args},
        quota_(request_, options.episodes, options.envs),
        count_(quota_.environments()),
        seed_(derive_seed(options.seed, kRecordStream)),
        envs_({.count = count_, .seed = seed_}, program().envs.vector_factory(request_, count_)),
        spec_(model_spec_of(envs_.spec())),
        obs_bytes_(envs_.spec().observation.bytes()),
        results_(static_cast<size_t>(count_)),
        running_(static_cast<size_t>(count_)),
        done_(static_cast<size_t>(count_)) {
    Shape shape = envs_.spec().observation.shape;
    shape.insert(shape.begin(), count_);
    obs_ = Array::empty(envs_.spec().observation.dtype, shape);
    next_ = Array::empty(envs_.spec().observation.dtype, shape);
    for (int i = 0; i < count_; ++i)
      samplers_.emplace_back(derive_seed(seed_, kActionStream), static_cast<uint64_t>(i));
  }

  RecordedEpisodes run() {
    const torch::NoGradGuard no_grad;
    at::Tensor uniforms = make_uniforms(spec_, count_);
    const bool samples = !algorithm_ || resolve_policy(options_.policy, options_.env) == "sample";
    std::vector<float> scratch;
    if (algorithm_) memory_ = make_memory(algorithm_->model(), count_);
    envs_.reset(place(obs_));
    while (!finished() && !(options_.stop && options_.stop())) {
      if (samples) draw_uniforms(samplers_, uniforms);
      const at::Tensor action = act(samples, uniforms);
      step_envs(envs_, spec_, action, place(next_), results_, scratch);
      forget_ended(memory_, results_);
      keep(action.contiguous());
      std::swap(obs_, next_);
    }
    return take();
  }

 private:
  bool finished() const {
    for (int i = 0; i < count_; ++i) {
      if (done_[static_cast<size_t>(i)].lengths.size() < quota_.of(i)) return false;
    }
    return true;
  }
  VectorEnv::ObsPlace place(Array& array) {
    return
        [&array, bytes = obs_bytes_](int i) { return std::span(array.data() + static_cast<size_t>(i) * bytes, bytes); };
  }

  at::Tensor act(bool samples, const at::Tensor& uniforms) {
    if (algorithm_) {
      const at::Tensor view = tensor_view(obs_);
      ActOutput out = algorithm_->act({view, samples ? uniforms : at::Tensor(), memory_});
      memory_ = std::move(out.state);
      return out.action;
    }
    return act_by_chance(uniforms);
  }

  // Any legal action is as likely as another.
  at::Tensor act_by_chance(const at::Tensor& uniforms) {
    if (spec_.action_size > 0) return uniforms * 2 - 1;
    if (spec_.action_mask()) {
      const at::Tensor forbidden = legal_actions(spec_, tensor_view(obs_)).logical_not();
      const at::Tensor logits = torch::zeros({count_, spec_.num_actions}).masked_fill(forbidden, kIllegalLogit);
      return sample_categorical(logits, uniforms, spec_.action_choices);
    }
    if (!spec_.action_choices.empty()) {
      const at::Tensor choices = torch::tensor(spec_.action_choices);
      return torch::minimum((uniforms * choices).to(at::kLong), choices - 1);
    }
    return (uniforms * static_cast<double>(spec_.num_actions)).to(at::kLong).clamp_max(spec_.num_actions - 1);
  }

  void keep(const at::Tensor& action) {
    const size_t action_bytes = action.nbytes() / static_cast<size_t>(count_);
    for (int i = 0; i < count_; ++i) {
      const auto k = static_cast<size_t>(i);
      Episodes& now = running_[k];
      append(now.obs, obs_.data() + k * obs_bytes_, obs_bytes_);
      append(now.action, static_cast<const std::byte*>(action.const_data_ptr()) + k * action_bytes, action_bytes);
      now.reward.push_back(results_[k].reward);
      if (!results_[k].done()) continue;
      const auto last = envs_.final_observation(i);
      now.final_obs.resize(obs_bytes_);
      std::fill(now.final_obs.begin(), now.final_obs.end(), std::byte{0});
      if (!last.empty()) std::memcpy(now.final_obs.data(), last.data(), obs_bytes_);
      now.lengths.push_back(static_cast<int64_t>(now.reward.size()));
      now.terminated.push_back(results_[k].terminated);
      if (done_[k].lengths.size() < quota_.of(i)) {
        now.move_to(done_[k]);
      } else {
        now = {};
      }
    }
  }

  RecordedEpisodes take() {
    Episodes all;
    for (Episodes& part : done_) part.move_to(all);
    PARL_CHECK(!all.lengths.empty(), "no episode of '{}' was finished: nothing to record", options_.env);
    const auto steps = static_cast<int64_t>(all.reward.size()), episodes = static_cast<int64_t>(all.lengths.size());
    const auto shaped = [&](int64_t rows) {
      Shape shape = envs_.spec().observation.shape;
      shape.insert(shape.begin(), rows);
      return shape;
    };
    RecordedEpisodes r;
    r.env = options_.env;
    r.contract = envs_.spec().contract;
    r.num_actions = spec_.num_actions;
    r.obs = array_of(obs_.dtype(), shaped(steps), all.obs);
    r.final_obs = array_of(obs_.dtype(), shaped(episodes), all.final_obs);
    const auto several = static_cast<int64_t>(spec_.action_choices.size());
    r.action = spec_.action_size > 0 ? array_of(DType::kF32, {steps, spec_.action_size}, all.action)
               : several > 0         ? array_of(DType::kI64, {steps, several}, all.action)
                                     : array_of(DType::kI64, {steps}, all.action);
    r.reward = Array::from<float>(all.reward, {steps});
    r.episode_length = Array::from<int64_t>(all.lengths, {episodes});
    r.terminated = Array::empty(DType::kBool, {episodes});
    for (int64_t i = 0; i < episodes; ++i) r.terminated.data<bool>()[i] = all.terminated[static_cast<size_t>(i)];
    return r;
  }

  Algorithm* algorithm_;
  const RecordOptions& options_;
  EnvRequest request_;
  EpisodeQuota quota_;
  int count_;
  uint64_t seed_;
  VectorEnv envs_;
  ModelSpec spec_;
  size_t obs_bytes_;
  Array obs_, next_;
  at::Tensor memory_;  // of a recurrent network
  std::vector<StepResult> results_;
  std::vector<Episodes> running_, done_;  // by environment
  std::vector<CounterRng> samplers_;
};

}  // namespace

RecordedEpisodes record(Algorithm* algorithm, const RecordOptions& options) {
  std::optional<PlaysForEvaluation> guard;
  if (algorithm) guard.emplace(*algorithm);
  return Recorder(algorithm, options).run();
}

}  // namespace parl
