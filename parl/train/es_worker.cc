#include "parl/train/es_worker.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>

#include "parl/agent/gaussian.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/any_config.h"
#include "parl/core/check.h"
#include "parl/core/clock.h"
#include "parl/core/rng.h"
#include "parl/train/program.h"
#include "parl/train/step_envs.h"

namespace parl {
namespace {

constexpr uint64_t kEpisodeStream = 4'000'000'007;  // derive_seed(seed, this): of the episodes of all generations

}  // namespace

struct EsWorker::Impl {
  ActorConfig config;
  EsConfig settings;
  std::vector<std::unique_ptr<Env>> envs;
  ModelSpec spec;
  std::unique_ptr<Es> es;
  int64_t version = -1;
  Array obs;  // [envs, ...]
  std::vector<float> env_action;

  explicit Impl(ActorConfig c) : config(std::move(c)) {
    at::set_num_threads(1);
    AnyConfig given = settings;
    if (!config.settings.empty()) config_from_json(given.fields(""), config.settings, "the worker's settings");
    settings = given.as<EsConfig>();
    const int64_t count = std::min(std::max<int64_t>(config.envs, 1), settings.episodes);
    for (int64_t i = 0; i < count; ++i) {
      envs.push_back(program().envs.make({.id = config.env, .args = config.env_args, .mode = EnvMode::kEvaluation}));
    }
    const EnvSpec& env = envs[0]->spec();
    spec = model_spec_of(env);
    Shape shape = env.observation.shape;
    shape.insert(shape.begin(), count);
    obs = Array::empty(env.observation.dtype, shape);
    env_action.resize(static_cast<size_t>(spec.action_size));
    es = std::make_unique<Es>(program().models.make(config.model, spec), settings, config.seed);
  }

  std::span<std::byte> row(size_t i) {
    const size_t bytes = envs[0]->spec().observation.bytes();
    return {obs.data() + i * bytes, bytes};
  }

  // Action `i` of the batch.
  Action action_of(const at::Tensor& action, size_t i) {
    if (spec.action_size == 0) return Action::discrete(action.const_data_ptr<int64_t>()[i]);
    map_action(spec, action.const_data_ptr<float>() + i * static_cast<size_t>(spec.action_size), env_action.data());
    return Action::continuous(env_action);
  }

  // Plays `count` episodes at once with the network as it is, the first of them with the seed `seeds[0]`.
  void play(std::span<const uint64_t> seeds, EsOutcome& out) {
    std::vector<CounterRng> samplers;
    std::vector<bool> runs(envs.size(), false);
    for (size_t i = 0; i < envs.size(); ++i) {
      samplers.emplace_back(derive_seed(i < seeds.size() ? seeds[i] : 0, kActionStream), 0);
      if (i >= seeds.size()) continue;
      envs[i]->reset(seeds[i], row(i));
      runs[i] = true;
    }
    at::Tensor uniforms = make_uniforms(spec, static_cast<int64_t>(envs.size()));
    const at::Tensor view = tensor_view(obs).narrow(0, 0, static_cast<int64_t>(envs.size()));
    std::vector<std::vector<Episode>> done(envs.size());
    while (std::find(runs.begin(), runs.end(), true) != runs.end()) {
      ActOutput act;
      {
        const ScopedTimer timer(out.act_seconds);
        if (settings.sample_actions) draw_uniforms(samplers, uniforms);
        act = settings.sample_actions ? es->sample(view, uniforms) : es->predict(view);
        act.action = act.action.contiguous();
      }
      const ScopedTimer timer(out.env_seconds);
      for (size_t i = 0; i < seeds.size(); ++i) {
        if (!runs[i]) continue;
        const StepResult r = envs[i]->step(action_of(act.action, i), row(i));
        ++out.steps;
        if (!r.done()) continue;
        envs[i]->take_episodes(done[i]);
        runs[i] = done[i].empty();
        if (runs[i]) envs[i]->reset({}, row(i));  // an end that is none of the game
      }
    }
    for (size_t i = 0; i < seeds.size(); ++i) out.episodes.push_back(std::move(done[i].at(0)));
  }

  // The mean return of one perturbed network over its episodes.
  double member(int64_t generation, int64_t pair, int sign, EsOutcome& out) {
    es->perturb(generation, pair, sign);
    const size_t first = out.episodes.size();
    const uint64_t stream = derive_seed(derive_seed(config.seed, kEpisodeStream), static_cast<uint64_t>(generation));
    for (int64_t at = 0; at < settings.episodes; at += static_cast<int64_t>(envs.size())) {
      std::vector<uint64_t> seeds;
      for (int64_t e = at; e < std::min(settings.episodes, at + static_cast<int64_t>(envs.size())); ++e) {
        seeds.push_back(derive_seed(stream, static_cast<uint64_t>(pair * settings.episodes + e)));
      }
      play(seeds, out);
    }
    double sum = 0;
    for (size_t i = first; i < out.episodes.size(); ++i) sum += out.episodes[i].raw_return;
    return sum / static_cast<double>(settings.episodes);
  }
};

EsWorker::EsWorker(ActorConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}
EsWorker::EsWorker(EsWorker&&) noexcept = default;
EsWorker::~EsWorker() = default;

EsOutcome EsWorker::evaluate(const Versioned<Weights>& weights, const EsTask& task) {
  const torch::NoGradGuard no_grad;
  if (weights.version() != impl_->version) {
    impl_->es->set_weights(weights.value());
    impl_->version = weights.version();
  }
  EsOutcome out;
  for (int64_t pair = task.first; pair < task.first + task.count; ++pair) {
    for (const int sign : {1, -1}) out.returns.push_back(impl_->member(task.generation, pair, sign, out));
  }
  impl_->es->settle();
  return out;
}

}  // namespace parl
