#include "parl/train/evaluate.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "parl/agent/act_in_env.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/core/rng.h"
#include "parl/env/vector_env.h"
#include "parl/train/actor.h"
#include "parl/train/episode_quota.h"
#include "parl/train/program.h"
#include "parl/train/step_envs.h"

namespace parl {
namespace {

constexpr uint64_t kEvalStream = 2'000'000'011;  // apart from training's streams

void summarise(EvalSummary& s) {
  std::vector<double> returns;
  double length = 0;
  for (const Episode& e : s.episodes) {
    returns.push_back(e.raw_return);
    length += static_cast<double>(e.length);
    s.truncated += e.truncated;
  }
  const auto n = static_cast<double>(returns.size());
  if (returns.empty()) {
    s.return_mean = s.return_std = s.return_median = s.return_min = s.return_max = s.length_mean = std::nan("");
    return;
  }
  for (double r : returns) s.return_mean += r / n;
  for (double r : returns) s.return_std += (r - s.return_mean) * (r - s.return_mean) / n;
  s.return_std = std::sqrt(s.return_std);
  std::sort(returns.begin(), returns.end());
  const size_t half = returns.size() / 2;
  s.return_median = returns.size() % 2 ? returns[half] : (returns[half - 1] + returns[half]) / 2;
  s.return_min = returns.front();
  s.return_max = returns.back();
  s.length_mean = length / n;
}

}  // namespace

std::string resolve_policy(const std::string& policy, const std::string& env) {
  if (policy == "auto") return env.rfind("atari:", 0) == 0 ? "sample" : "greedy";
  PARL_CHECK(policy == "greedy" || policy == "sample", "unknown policy '{}': use greedy, sample or auto", policy);
  return policy;
}

EvalSummary evaluate(Algorithm& algorithm, const EvalOptions& options) {
  const torch::NoGradGuard no_grad;
  const PlaysForEvaluation guard(algorithm);
  const EnvRequest request{.id = options.env, .args = options.env_args, .mode = EnvMode::kEvaluation};
  const EpisodeQuota quota(request, options.episodes, options.envs);
  const int count = quota.environments();
  const uint64_t seed = derive_seed(options.seed, kEvalStream + options.stream);
  VectorEnv envs({.count = count, .seed = seed}, program().envs.vector_factory(request, count));
  const Box& space = envs.spec().observation;
  Shape shape = space.shape;
  shape.insert(shape.begin(), count);
  Array obs = Array::empty(space.dtype, shape);
  const auto place = [&](int i) {
    return std::span(obs.data() + static_cast<size_t>(i) * space.bytes(), space.bytes());
  };

  EvalSummary summary;
  summary.policy = resolve_policy(options.policy, options.env);
  std::vector<std::vector<Episode>> done(static_cast<size_t>(count));
  const auto finished = [&](int i) { return done[static_cast<size_t>(i)].size() >= quota.of(i); };
  const auto all_finished = [&] {
    for (int i = 0; i < count; ++i) {
      if (!finished(i)) return false;
    }
    return true;
  };

  std::vector<CounterRng> samplers;
  for (int i = 0; i < count; ++i) samplers.emplace_back(derive_seed(seed, kActionStream), static_cast<uint64_t>(i));
  const ModelSpec spec = model_spec_of(envs.spec());
  at::Tensor uniforms = make_uniforms(spec, count), memory = make_memory(algorithm.model(), count);
  std::vector<float> env_actions;
  std::vector<StepResult> results(static_cast<size_t>(count));
  envs.reset(place);
  if (options.on_frame) options.on_frame(envs.env(0));
  while (!all_finished() && !(options.stop && options.stop())) {
    const at::Tensor view = tensor_view(obs);
    const bool sampled = summary.policy == "sample";
    if (sampled) draw_uniforms(samplers, uniforms);
    const ActOutput out = act_in_env(algorithm, {view, sampled ? uniforms : at::Tensor(), memory}, spec, options.env);
    memory = out.state;
    const bool recording = options.on_frame && !finished(0);
    step_envs(envs, spec, out.action, place, results, env_actions);
    forget_ended(memory, results);
    if (recording) options.on_frame(envs.env(0));
    for (int i = 0; i < count; ++i) envs.env(i).take_episodes(done[static_cast<size_t>(i)]);
  }
  for (int i = 0; i < count; ++i) {
    auto& list = done[static_cast<size_t>(i)];
    for (size_t k = 0; k < std::min(list.size(), quota.of(i)); ++k) summary.episodes.push_back(std::move(list[k]));
  }
  summary.complete = all_finished();
  summarise(summary);
  return summary;
}

}  // namespace parl
