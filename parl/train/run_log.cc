#include "parl/train/run_log.h"

#include <algorithm>
#include <cmath>

#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/core/config.h"
#include "parl/core/log.h"
#include "parl/core/stats.h"
#include "parl/train/metrics.h"
#include "parl/train/program.h"
#include "parl/train/status.h"

namespace parl {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void add_to(std::vector<NamedMean>& means, const std::string& name, double value) {
  auto at = std::find_if(means.begin(), means.end(), [&](const NamedMean& m) { return m.name == name; });
  if (at == means.end()) at = means.insert(at, NamedMean{name, 0, 0});
  ++at->count;
  at->sum += value;
}

void move_to(std::vector<NamedMean>& means, MetricRow& row) {
  for (NamedMean& m : means) {
    row.emplace_back(m.name, m.value());
    m.count = 0;
    m.sum = 0;
  }
}

// Columns that every run has, in this order; learning statistics and user scalars follow as they come.
std::vector<std::string> first_columns() {
  return {"frames",           "updates",         "episodes",       "return_mean_100", "episodes_in_mean",
          "length_mean_100",  "eval_return",     "policy_lag_min", "policy_lag_mean", "policy_lag_max",
          "dropped_rollouts", "actors_replaced", "seconds",        "steps_per_s",     "env_share",
          "act_share",        "learn_share",     "queue_fill",     "rss_mb"};
}

}  // namespace

struct RunLog::Impl {
  MetricsWriter metrics;
  Status status;
  RowState state;
  double row_seconds;
  int64_t row_steps;
  PhaseSeconds row_phases, status_phases;
  RunningStat status_lag;

  Impl(const RunDir& dir, const TrainConfig& c, const Start& start, bool show)
      : metrics(dir.path(), first_columns(), start.rows_until),
        status(fmt::format("{} {}", c.algorithm, c.env), c.steps, start.steps, c.status_seconds,
               show ? Status::Mode::kAuto : Status::Mode::kOff),
        state(start.row),
        row_seconds(start.seconds),
        row_steps(start.steps) {}
};

RunLog::RunLog(const RunDir& dir, const TrainConfig& config, const Start& start, bool show_status)
    : impl_(std::make_unique<Impl>(dir, config, start, show_status)) {}
RunLog::~RunLog() = default;

void RunLog::add_episode(const Episode& episode) {
  for (const auto& [name, value] : episode.scalars) add_to(impl_->state.scalars, "env/" + name, value);
}

void RunLog::add_update(const LearnStats& stats) {
  for (const auto& [name, value] : stats) {
    if (name.rfind("policy_lag", 0) == 0) continue;  // the loop measures lag itself
    // `updates` counts learn() calls
    add_to(impl_->state.learning, name == "updates" ? "optimizer_steps" : name, value);
  }
}

void RunLog::add_lag(int64_t lag) {
  RowState& row = impl_->state;
  row.lag_min = row.lags ? std::min(row.lag_min, lag) : lag;
  row.lag_max = row.lags ? std::max(row.lag_max, lag) : lag;
  row.lag_sum += lag;
  ++row.lags;
  impl_->status_lag.add(static_cast<double>(lag));
}

void RunLog::add_eval(const EvalSummary& eval) { impl_->state.eval = impl_->state.row_eval = eval.return_mean; }

const RowState& RunLog::row() const { return impl_->state; }

void RunLog::write_row(const RunCounters& c) {
  Impl& m = *impl_;
  const PhaseSeconds& now = c.phases;
  const double env = now.env - m.row_phases.env, act = now.act - m.row_phases.act,
               learn = now.learn - m.row_phases.learn;
  const double busy = std::max(env + act + learn, 1e-9);
  const double seconds = c.seconds - m.row_seconds;
  RowState& state = m.state;
  const auto lag = [&](int64_t value) { return state.lags ? static_cast<double>(value) : kNan; };
  MetricRow row = {
      {"frames", static_cast<double>(c.frames)},
      {"updates", static_cast<double>(c.updates)},
      {"episodes", static_cast<double>(c.episodes)},
      {"return_mean_100", c.return_mean},
      {"episodes_in_mean", static_cast<double>(c.episodes_in_mean)},
      {"length_mean_100", c.length_mean},
      {"eval_return", state.row_eval.value_or(kNan)},
      {"policy_lag_min", lag(state.lag_min)},
      {"policy_lag_mean", lag(state.lag_sum) / static_cast<double>(state.lags)},
      {"policy_lag_max", lag(state.lag_max)},
      {"dropped_rollouts", static_cast<double>(c.dropped_rollouts)},
      {"actors_replaced", static_cast<double>(c.actors_replaced)},
      {"seconds", c.seconds},
      {"steps_per_s", seconds > 0 ? static_cast<double>(c.steps - m.row_steps) / seconds : kNan},
      {"env_share", env / busy},
      {"act_share", act / busy},
      {"learn_share", learn / busy},
      {"queue_fill", c.queue_fill},
      {"rss_mb", rss_mb()},
  };
  move_to(state.learning, row);
  move_to(state.scalars, row);
  m.metrics.write(c.steps, row);
  m.row_phases = now;
  m.row_seconds = c.seconds;
  m.row_steps = c.steps;
  state.row_eval.reset();
  state.lags = state.lag_sum = 0;
}

int64_t RunLog::row_steps() const { return impl_->row_steps; }

void RunLog::show(const RunCounters& c) {
  Impl& m = *impl_;
  if (!m.status.due()) return;
  const PhaseSeconds& now = c.phases;
  const double env = now.env - m.status_phases.env, act = now.act - m.status_phases.act,
               learn = now.learn - m.status_phases.learn;
  const double busy = std::max(env + act + learn, 1e-9);
  StatusSample s;
  s.steps = c.steps;
  s.updates = c.updates;
  s.episodes = c.episodes;
  if (c.episodes_in_mean > 0) s.return_mean = c.return_mean;
  s.episodes_in_mean = c.episodes_in_mean;
  s.last_eval = m.state.eval;
  s.policy_lag = m.status_lag.count() ? m.status_lag.mean() : 0;
  s.queue_fill = c.queue_fill;
  s.env_share = env / busy;
  s.act_share = act / busy;
  s.learn_share = learn / busy;
  s.actors_replaced = c.actors_replaced;
  s.rss_mb = rss_mb();
  m.status.update(s);
  m.status_phases = now;
  m.status_lag.clear();
}

void RunLog::finish() { impl_->status.finish(); }

void check_continues(const std::string& saved, const TrainConfig& config) {
  TrainConfig before = train_config_of(saved, "the run's config.json");
  TrainConfig now = config;
  std::vector<std::string> refused;
  const auto same = [&](const std::string& flag, const auto& a, const auto& b) {
    if (a != b) refused.push_back(flag);
  };
  same("env", before.env, now.env);
  same("env-args", before.env_args, now.env_args);
  same("model", before.model, now.model);
  same("policies", before.policies, now.policies);
  same("normalize-observations", before.normalize_observations, now.normalize_observations);
  same("seed", before.seed, now.seed);
  same("algorithm", before.algorithm, now.algorithm);
  const AlgorithmEntry& entry = program().algorithm(now.algorithm);
  std::vector<std::string> fixed = entry.fixed_run;
  for (const std::string& name : entry.fixed) fixed.push_back(now.algorithm + "." + name);
  const ConfigFields then_fields = config_fields(before), now_fields = config_fields(now);
  for (const std::string& path : fixed) {
    const ConfigField *a = config_find(then_fields, path), *b = config_find(now_fields, path);
    if (a && b) same(b->flag, a->get(), b->get());
  }
  if (before.deterministic && now.deterministic && !entry.train) {
    same("actors", before.actors * before.learners, now.actors * now.learners);  // --learners may change with them
    same("envs-per-actor", before.envs_per_actor, now.envs_per_actor);
    same("rollout-length", before.rollout_length, now.rollout_length);
  }
  PARL_CHECK(refused.empty(),
             "this directory holds a run with another --{}: continue it with the same, or give another --run",
             fmt::join(refused, ", --"));
  for (const std::string& difference : config_differences(config_fields(before), config_fields(now))) {
    log().warn("continuing with another setting: {} (to start anew, give another --run)", difference);
  }
}

void save_batch_dump(const std::string& path, const Batch& batch, const Weights& weights, const std::string& message) {
  Weights out;
  const auto add = [&](const char* name, const at::Tensor& tensor) {
    if (tensor.defined()) out.entries.push_back({std::string("batch/") + name, to_array(tensor)});
  };
  add("obs", batch.obs);
  add("action", batch.action);
  add("behaviour_logits", batch.behaviour_logits);
  add("state", batch.state);
  add("reward", batch.reward);
  add("terminated", batch.terminated);
  add("truncated", batch.truncated);
  add("final_index", batch.final_index);
  add("final_obs", batch.final_obs);
  add("version", batch.version);
  for (const NamedArray& w : weights.entries) out.entries.push_back({"weights/" + w.name, w.array});
  save_safetensors(path, out, {{"error", message}});
}

}  // namespace parl
