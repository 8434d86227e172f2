// parl bench env: agent steps per second of environments with random actions, for 1..N threads.
//
// --json: {"env", "threads", "steps_per_s", "envs", "sync_steps_per_s", "async_steps_per_s", "by_threads"}: the figures
// of the largest number of threads, steps_per_s the better of sync and async; by_threads has the better one for
// 1, 2, ... threads.
#include <sched.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <thread>

#include "cli/command.h"
#include "cli/env_args.h"
#include "cli/env_rate.h"
#include "parl/train/program.h"

namespace parl::cli {
namespace {

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                     : static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int bench_env(const Arguments& args) {
  CLI::App app("Agent steps per second of environments with random actions, for 1..N threads.", "parl bench env");
  std::string env = "atari:pong";
  std::vector<std::string> env_args;
  EnvRateSettings settings;
  settings.threads = usable_cores();
  bool json = false;
  app.add_option("--env", env, "environment (see: parl list envs)")->capture_default_str();
  add_env_args(app, env_args, "options of the environment");
  app.add_option("--threads", settings.threads, "largest number of threads")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--envs", settings.envs, "environments in the vector")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  app.add_option("--seconds", settings.seconds, "for each figure")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--seed", settings.seed, "of environments and actions")->capture_default_str();
  app.add_flag("--json", json, kJsonHelp);
  if (!parse(app, args)) return kSuccess;

  EnvRequest request{.id = env};
  set_env_args(request.args, env_args);
  try {
    std::cout << program().envs.make(request)->spec().contract << '\n';
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  const auto rates = measure_env_rates(settings, [&] { return program().envs.vector_factory(request, settings.envs); });
  std::cout << fmt::format("{:>7} {:>14} {:>14}   ({} environments)\n", "threads", "sync steps/s", "async steps/s",
                           settings.envs);
  std::string by_threads;
  for (const EnvRate& r : rates) {
    std::cout << fmt::format("{:>7} {:>14.0f} {:>14}\n", r.threads, r.sync_steps_per_s,
                             r.async_steps_per_s > 0 ? fmt::format("{:.0f}", r.async_steps_per_s) : "-");
    by_threads += fmt::format("{}{:.1f}", by_threads.empty() ? "[" : ", ", r.best());
  }
  std::cout << std::flush;
  if (json) {
    const EnvRate& last = rates.back();
    JsonLine line;
    line.add("env", env).add("threads", last.threads).add("steps_per_s", last.best()).add("envs", settings.envs);
    line.add("sync_steps_per_s", last.sync_steps_per_s)
        .add("async_steps_per_s", last.async_steps_per_s)
        .add_raw("by_threads", by_threads + "]")
        .print();
  }
  return kSuccess;
}

}  // namespace parl::cli
