#include "parl/train/evaluate.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/core/rng.h"
#include "parl/env/vector_env.h"
#include "parl/train/actor.h"
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

// As many as are wanted, rounded up so that no agent of a shared environment is missing.
int64_t environments_for(const EnvRequest& request, int64_t wanted) {
  const int64_t agents = program().envs.agents_of(request);
  return (wanted + agents - 1) / agents * agents;
}

}  // namespace

// Exploration that only training wants is off for as long as this lives.
struct PlaysForEvaluation {
  explicit PlaysForEvaluation(Algorithm& a) : algorithm(a) { algorithm.play_for_evaluation(true); }
  ~PlaysForEvaluation() { algorithm.play_for_evaluation(false); }
  PlaysForEvaluation(const PlaysForEvaluation&) = delete;
  PlaysForEvaluation& operator=(const PlaysForEvaluation&) = delete;
  Algorithm& algorithm;
};

std::string resolve_policy(const std::string& policy, const std::string& env) {
  if (policy == "auto") return env.rfind("atari:", 0) == 0 ? "sample" : "greedy";
  PARL_CHECK(policy == "greedy" || policy == "sample", "unknown policy '{}': use greedy, sample or auto", policy);
  return policy;
}

EvalSummary evaluate(Algorithm& algorithm, const EvalOptions& options) {
  PARL_CHECK_GT(options.episodes, 0, "an evaluation needs at least one episode");
  PARL_CHECK_GT(options.envs, 0, "an evaluation needs at least one environment");
  const torch::NoGradGuard no_grad;
  const PlaysForEvaluation guard(algorithm);
  const EnvRequest request{.id = options.env, .args = options.env_args, .mode = EnvMode::kEvaluation};
  const auto count = static_cast<int>(environments_for(request, std::min(options.envs, options.episodes)));
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
  const auto quota = [&](int i) {
    return static_cast<size_t>(options.episodes / count + (i < options.episodes % count ? 1 : 0));
  };
  const auto finished = [&](int i) { return done[static_cast<size_t>(i)].size() >= quota(i); };
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
    const ActOutput out = algorithm.act({view, sampled ? uniforms : at::Tensor(), memory});
    memory = out.state;
    const bool recording = options.on_frame && !finished(0);
    step_envs(envs, spec, out.action, place, results, env_actions);
    forget_ended(memory, results);
    if (recording) options.on_frame(envs.env(0));
    for (int i = 0; i < count; ++i) envs.env(i).take_episodes(done[static_cast<size_t>(i)]);
  }
  for (int i = 0; i < count; ++i) {
    auto& list = done[static_cast<size_t>(i)];
    for (size_t k = 0; k < std::min(list.size(), quota(i)); ++k) summary.episodes.push_back(std::move(list[k]));
  }
  summary.complete = all_finished();
  summarise(summary);
  return summary;
}

}  // namespace parl
