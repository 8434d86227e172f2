// parl eval RUN [--episodes N] [--video FILE.gif|FILE.mp4] [--watch]: a trained agent plays full games, scored raw.
//
// --json: {"run", "checkpoint", "env", "steps" (agent steps of training), "episodes", "policy", "truncated",
// "return_mean", "return_std", "return_median", "return_min", "return_max", "length_mean", "complete" (false:
// interrupted), "video" (null without, and where the film failed: the games are played to their end even so, and the
// exit code is 1)}.
#include "parl/train/evaluate.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/env_args.h"
#include "cli/terminal_view.h"
#include "cli/video.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

namespace parl::cli {
namespace {

void print(const LoadedRun& run, const EvalSummary& s) {
  std::cout << fmt::format("{} after {} agent steps: {} episodes of {}, {} policy, {} truncated\n", run.checkpoint,
                           run.steps, s.episodes.size(), run.config.env, s.policy, s.truncated);
  for (const Episode& e : s.episodes) {
    std::cout << fmt::format("  return {:10.2f}  length {}{}\n", e.raw_return, e.length,
                             e.truncated ? "  truncated" : "");
  }
  std::cout << fmt::format("return {:.2f} +- {:.2f} (median {:.2f}, {:.2f} .. {:.2f}), length {:.0f}\n", s.return_mean,
                           s.return_std, s.return_median, s.return_min, s.return_max, s.length_mean);
  if (!s.complete) std::cout << "interrupted before every game was over: these figures favour short games\n";
  std::cout << std::flush;
}

constexpr double kMostPictures = 1000;  // a second

std::string text_of(const ModelSpec& spec) {
  const std::string actions = spec.num_actions > 0 ? fmt::format("{} actions", spec.num_actions)
                                                   : fmt::format("actions of {}", spec.action_size);
  return fmt::format("observations [{}] of {} and {}", fmt::join(spec.obs_shape, ", "), dtype_name(spec.obs_dtype),
                     actions);
}

// The run's environment options, with those of the command line over them. They must leave what the network sees as it
// is.
EnvArgs overridden(const LoadedRun& run, const std::string& run_path, const std::vector<std::string>& given) {
  EnvArgs args = run.config.env_args;
  set_env_args(args, given);
  if (given.empty()) return args;
  const auto spec_of = [&](const EnvArgs& with) {
    return model_spec_of(program().envs.make({.id = run.config.env, .args = with})->spec());
  };
  ModelSpec now;
  try {
    now = spec_of(args);
  } catch (const Error& error) {
    throw UsageError(fmt::format("--env-args {}: {}", fmt::join(given, " "), error.what()));
  }
  const std::string here = text_of(now), there = text_of(spec_of(run.config.env_args));
  if (here != there)
    throw UsageError(
        fmt::format("--env-args {}: this gives {}, but the run '{}' was trained on {}; leave out what "
                    "changes them",
                    fmt::join(given, " "), here, run_path, there));
  return args;
}

}  // namespace

int verb_eval(const Arguments& args) {
  CLI::App app("Lets a trained agent play: full games, raw score, seeds apart from training.", "parl eval");
  std::string run_path, which = "best", video_path;
  EvalOptions options;
  std::vector<std::string> env_args;
  int64_t seed = 0;
  double fps = 0;
  bool json = false;
  app.add_option("run", run_path, "run directory, or one checkpoint folder")->required();
  app.add_option("--episodes", options.episodes, "how many, in all")->capture_default_str();
  app.add_option("--envs", options.envs, "environments side by side")->capture_default_str();
  app.add_option("--policy", options.policy, "greedy, sample, or auto: sample on Atari, greedy elsewhere")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "greedy", "sample"}));
  app.add_option("--checkpoint", which, "best or latest")
      ->capture_default_str()
      ->check(CLI::IsMember({"best", "latest"}));
  app.add_option("--seed", seed, "of the episodes; default: the run's");
  add_env_args(app, env_args, "options of the environment over those of the run");
  app.add_option("--video", video_path, "film environment 0 into a .gif or .mp4 file")->type_name("file");
  bool watch = false;
  app.add_flag("--watch", watch, "show environment 0 in this terminal while it plays");
  app.add_option("--fps", fps, "pictures a second of the film, or to watch; default: 60 emulator frames a second");
  app.add_flag("--json", json, kJsonHelp);
  if (!parse(app, args)) return kSuccess;

  check_at_least("--episodes", options.episodes, 1);
  check_at_least("--envs", options.envs, 1);
  if (app.count("--seed")) check_at_least("--seed", seed, 0);
  if (app.count("--fps") && !(fps > 0 && fps <= kMostPictures))
    throw UsageError(fmt::format("--fps must be above 0 and at most {}, not {}", kMostPictures, fps));
  std::unique_ptr<Video> video;
  if (!video_path.empty()) {  // a wrong name fails before the work
    if (!is_video_name(video_path)) throw UsageError("--video " + video_path + ": the name must end with .gif or .mp4");
    video = open_video(video_path);
  }
  const LoadedRun run = load_run(run_path, which == "best");
  options.env = run.config.env;
  options.env_args = overridden(run, run_path, env_args);
  options.stream = 1;
  options.seed = static_cast<uint64_t>(app.count("--seed") ? seed : run.config.seed);
  const std::atomic<bool>& stop = stop_on_signals();
  options.stop = [&stop] { return stop.load(); };
  std::optional<TerminalView> view;
  if (watch) view.emplace();
  std::string no_film;  // why
  const auto film = [&](const auto& work) {
    if (!no_film.empty()) return;
    try {
      work();
    } catch (const Error& error) {
      no_film = for_users(error.what());
      video.reset();
    }
  };
  if (video || view) {
    options.on_frame = [&, picture = Image()](Env& env) mutable {
      film([&] {
        env.render(picture);
        const double rate = fps > 0 ? fps : 60.0 / env.spec().frames_per_step;
        if (video) video->add(picture, rate);
        if (view) view->show(picture, rate);
      });
    };
  }
  const EvalSummary s = evaluate(*run.algorithm, options);
  view.reset();
  film([&] {
    if (video) video->finish();
  });
  print(run, s);
  if (video) std::cout << "film: " << video_path << "\n" << std::flush;
  if (json) {
    JsonLine line;
    line.add("run", run_path).add("checkpoint", run.checkpoint).add("env", run.config.env).add("steps", run.steps);
    line.add("episodes", static_cast<int64_t>(s.episodes.size())).add("policy", s.policy).add("truncated", s.truncated);
    line.add("return_mean", s.return_mean).add("return_std", s.return_std).add("return_median", s.return_median);
    line.add("complete", s.complete);
    line.add("return_min", s.return_min).add("return_max", s.return_max).add("length_mean", s.length_mean);
    if (video)
      line.add("video", video_path);
    else
      line.add_raw("video", "null");
    line.print();
  }
  if (!no_film.empty()) raise("no {}: {}", video_path.empty() ? "pictures" : "film", no_film);
  return stop ? kInterrupted : kSuccess;
}

}  // namespace parl::cli
