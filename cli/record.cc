// parl record RUN --out FILE [--episodes N]: a trained agent plays, and its episodes are kept to learn from.
// parl record --env ID --out FILE: the same with actions by chance.
//
// --json: {"out", "env", "episodes", "steps", "policy", "reward_mean" (per episode, as training sees it), "complete"
// (false: interrupted)}.
#include "parl/train/record.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>

#include "cli/command.h"
#include "cli/env_args.h"
#include "parl/train/evaluate.h"
#include "parl/train/trainer.h"

namespace parl::cli {

int verb_record(const Arguments& args) {
  CLI::App app(
      "Keeps whole episodes in a file, to learn from with `parl train bc --data FILE` or `parl train dqn --data FILE`.",
      "parl record");
  std::string run_path, which = "best", out;
  RecordOptions options;
  std::vector<std::string> env_args;
  int64_t seed = 0;
  bool json = false;
  app.add_option("run", run_path,
                 "run directory, or one checkpoint folder, whose agent plays; none: actions by chance");
  app.add_option("--out", out, "file to write (safetensors)")->required()->type_name("file");
  app.add_option("--env", options.env, "environment, where no run is given (see: parl list envs)");
  add_env_args(app, env_args, "options of the environment over those of the run");
  app.add_option("--episodes", options.episodes, "how many, in all")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--envs", options.envs, "environments side by side")
      ->capture_default_str()
      ->check(CLI::Range(1, 65'536));
  app.add_option("--policy", options.policy, "greedy, sample, or auto: sample on Atari, greedy elsewhere")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "greedy", "sample"}));
  app.add_option("--checkpoint", which, "best or latest")
      ->capture_default_str()
      ->check(CLI::IsMember({"best", "latest"}));
  app.add_option("--seed", seed, "of the episodes; default: the run's, or 0")->check(CLI::NonNegativeNumber);
  app.add_flag("--json", json, kJsonHelp);
  if (!parse(app, args)) return kSuccess;

  const std::atomic<bool>& stop = stop_on_signals();
  options.stop = [&stop] { return stop.load(); };
  std::optional<LoadedRun> run;
  if (run_path.empty()) {
    if (options.env.empty()) throw UsageError("give a run whose agent plays, or --env for actions by chance");
  } else {
    if (!options.env.empty())
      throw UsageError("--env is for actions by chance: the run '" + run_path + "' plays in its own environment");
    run = load_run(run_path, which == "best");
    options.env = run->config.env;
    options.env_args = run->config.env_args;
    options.seed = static_cast<uint64_t>(run->config.seed);
  }
  set_env_args(options.env_args, env_args);
  if (app.count("--seed")) options.seed = static_cast<uint64_t>(seed);
  const RecordedEpisodes recording = record(run ? run->algorithm.get() : nullptr, options);
  save_recording(out, recording);
  double rewards = 0;
  for (int64_t i = 0; i < recording.steps(); ++i) rewards += recording.reward.data<float>()[i];
  const double mean = rewards / static_cast<double>(recording.episodes());
  const std::string policy = run ? resolve_policy(options.policy, options.env) : "chance";
  std::cout << fmt::format("{}: {} episodes of {}, {} steps, {} policy, mean reward of an episode {:.2f}\n", out,
                           recording.episodes(), options.env, recording.steps(), policy, mean)
            << std::flush;
  if (json) {
    JsonLine line;
    line.add("out", out).add("env", options.env).add("episodes", recording.episodes()).add("steps", recording.steps());
    line.add("policy", policy).add("reward_mean", mean).add("complete", recording.episodes() == options.episodes);
    line.print();
  }
  return stop ? kInterrupted : kSuccess;
}

}  // namespace parl::cli
