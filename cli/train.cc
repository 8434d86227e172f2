// parl train ALGORITHM --env ENV [...]: the main job, once or once per seed.
//
// --json: {"run", "steps", "frames", "seconds", "steps_per_s", "episodes", "return_mean_100" (null below 100 finished
// episodes), "episodes_in_mean", "updates", "policy_lag_mean", "env_share", "act_share", "learn_share",
// "actors_replaced", "dropped_rollouts", "rss_mb", "stop_reason" (steps | until_return | until_seconds | interrupted)}.
// With --seeds:
// {"seeds", "runs": [one such object each], "return_mean", "return_low", "return_high" (95 % interval of the mean over
// seeds), "curve_csv", "curve_svg", "stop_reason"}.
#include "parl/train/trainer.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "cli/command.h"
#include "cli/seeds.h"
#include "cli/train_options.h"
#include "parl/core/check.h"
#include "parl/core/interrupt.h"
#include "parl/core/log.h"
#include "parl/train/checkpoint.h"
#include "parl/train/learners.h"

namespace parl::cli {
namespace {

JsonLine to_json(const TrainSummary& s) {
  JsonLine json;
  json.add("run", s.run).add("steps", s.steps).add("frames", s.frames).add("seconds", s.seconds);
  json.add("steps_per_s", s.steps_per_s).add("episodes", s.episodes).add("return_mean_100", s.return_mean_100);
  json.add("episodes_in_mean", s.episodes_in_mean).add("updates", s.updates).add("policy_lag_mean", s.policy_lag_mean);
  json.add("env_share", s.env_share).add("act_share", s.act_share).add("learn_share", s.learn_share);
  json.add("actors_replaced", s.actors_replaced).add("dropped_rollouts", s.dropped_rollouts).add("rss_mb", s.rss_mb);
  json.add("stop_reason", s.stop_reason);
  return json;
}

void print(const TrainSummary& s) {
  const std::string score = s.return_mean_100
                                ? fmt::format("{:.2f} (mean of the last 100 episodes)", *s.return_mean_100)
                                : fmt::format("- ({} finished episodes; the mean needs 100)", s.episodes_in_mean);
  std::cout << fmt::format(
      "{}: {} agent steps ({} frames) and {} updates; {:.1f} s, {:.0f} steps/s in this command; stopped by {}\n"
      "return {}; time: env {:.0f} %, act {:.0f} %, learn {:.0f} %; mean policy lag {:.2f}; {:.0f} MiB\n",
      s.run, s.steps, s.frames, s.updates, s.seconds, s.steps_per_s, s.stop_reason, score, 100 * s.env_share,
      100 * s.act_share, 100 * s.learn_share, s.policy_lag_mean, s.rss_mb);
  std::cout << std::flush;
}

// Seconds that the run of this directory has had already.
double seconds_trained(const std::string& run) {
  const auto checkpoint = load_latest_checkpoint(run);
  return checkpoint ? checkpoint->progress.seconds : 0;
}

// The report is of the seeds that came to their end; the others are named.
int train_seeds(const TrainConfig& base, const std::vector<int64_t>& all, const TrainHooks& hooks, bool json) {
  std::vector<TrainSummary> summaries;
  std::vector<int64_t> seeds;
  std::string stop_reason = "done", failure;
  for (const int64_t seed : all) {
    TrainConfig config = base;
    config.seed = seed;
    config.run = fmt::format("{}/seed-{}", base.run, seed);
    try {
      // --until-seconds is each seed's budget, over all commands: else a set that is taken up again is not comparable.
      constexpr double kNoTime = 1e-9;
      if (base.until_seconds > 0)
        config.until_seconds = std::max(base.until_seconds - seconds_trained(config.run), kNoTime);
      TrainSummary summary = train(config, hooks);
      print(summary);
      if (summary.stop_reason == "interrupted") {
        stop_reason = "interrupted";
        log().warn("seed {} and those after it are not in the report: the same command goes on with them", seed);
        break;
      }
      summaries.push_back(std::move(summary));
      seeds.push_back(seed);
    } catch (const Interrupted& error) {
      log().warn("seed {}: {}", seed, error.what());
      stop_reason = "interrupted";
      break;
    } catch (const std::exception& error) {
      log().error("seed {}: {}", seed, error.what());
      failure = fmt::format("seed {} failed: {}", seed, error.what());
    }
  }
  if (summaries.empty() && !failure.empty()) raise("{}", failure);
  if (summaries.empty()) {
    if (json) JsonLine().add_raw("seeds", "[]").add_raw("runs", "[]").add("stop_reason", stop_reason).print();
    return kInterrupted;
  }
  std::vector<SeedRun> runs_done;
  for (const TrainSummary& s : summaries) runs_done.push_back({s.run, s.return_mean_100, s.steps, s.seconds});
  const SeedReport report = report_seeds(base.run, fmt::format("{} {}", base.algorithm, base.env), runs_done);
  std::cout << report.text << std::flush;
  if (json) {
    std::string ids, runs;
    for (const TrainSummary& s : summaries) {
      ids += (ids.empty() ? "" : ", ") + std::to_string(seeds[static_cast<size_t>(&s - summaries.data())]);
      runs += (runs.empty() ? "" : ", ") + to_json(s).text();
    }
    JsonLine line;
    line.add_raw("seeds", "[" + ids + "]").add_raw("runs", "[" + runs + "]");
    line.add("return_mean", report.mean).add("return_low", report.low).add("return_high", report.high);
    line.add("curve_csv", report.csv).add("curve_svg", report.svg).add("stop_reason", stop_reason).print();
  }
  if (!failure.empty()) raise("{}; the report is of the others", failure);
  return stop_reason == "interrupted" ? kInterrupted : kSuccess;
}

}  // namespace

int verb_train(const Arguments& args) {
  CLI::App app("Trains an agent. The same command continues the run; Ctrl-C ends it with a checkpoint.", "parl train");
  TrainOptions options(app);
  std::string seeds;
  bool json = false, quiet = false;
  app.add_option("--seeds", seeds, "one run for each, in turn: 1..5 or 1,4,7; then mean, interval, CSV and plot")
      ->type_name("range");
  app.add_flag("--quiet", quiet, "no status");
  app.add_flag("--json", json, kJsonHelp);
  if (!parse(app, args)) return kSuccess;
  if (options.help()) {
    std::cout << options.help_text() << std::flush;
    return kSuccess;
  }
  const std::atomic<bool>& stop = stop_on_signals();  // before the first line that could find its reader gone
  TrainConfig config;
  try {
    config = options.resolve();
    config.check();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  if (!options.preset().empty()) log().info("preset {}", options.preset());

  TrainHooks hooks;
  hooks.stop = &stop;
  hooks.show_status = !quiet;
  if (!seeds.empty() && with_learner_place(config).learner_rank >= 0) {
    throw UsageError(
        "--seeds makes one run after another: with --learner-rank or torchrun start each seed by a command of its own");
  }
  if (!seeds.empty()) return train_seeds(config, parse_range(seeds, "--seeds"), hooks, json);
  const TrainSummary summary = train(config, hooks);
  print(summary);
  if (json) to_json(summary).print();
  return summary.stop_reason == "interrupted" ? kInterrupted : kSuccess;
}

}  // namespace parl::cli
