// parl check env|algorithm NAME: does it keep the promises of its interface? What check_env and check_algorithm know.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/command.h"
#include "cli/env_args.h"
#include "parl/env/env_conformance.h"
#include "parl/train/algorithm_conformance.h"
#include "parl/train/program.h"

namespace parl::cli {
namespace {

// `contract`: the header that promises.
int report(const std::string& name, const std::string& contract, const std::vector<std::string>& problems, bool json) {
  for (const std::string& problem : problems) std::cout << for_users(problem) << "\n";
  if (problems.empty()) {
    std::cout << fmt::format("{} keeps the promises of {}\n", name, contract);
  } else {
    std::cout << fmt::format("{} breaks promises of {}: {} problems\n", name, contract, problems.size());
  }
  if (json) JsonLine().add("name", name).add("ok", problems.empty()).add("problems", problems).print();
  return problems.empty() ? kSuccess : kFailure;
}

int check_env_named(const Arguments& args) {
  CLI::App app("Plays an environment with random actions and looks whether it keeps the contract of parl/env/env.h",
               "parl check env");
  std::string env;
  std::vector<std::string> env_args;
  ConformanceOptions options;
  bool evaluation = false, json = false, no_randomness = false, endless = false;
  app.add_option("env", env, "environment (see: parl list envs)")->required();
  add_env_args(app, env_args, "options of the environment");
  app.add_option("--steps", options.steps, "random steps per run; about a dozen runs are made")->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the random actions")->capture_default_str();
  app.add_flag("--evaluation", evaluation, "as evaluations see it, not training");
  app.add_flag("--no-randomness", no_randomness, "different seeds may give the same run");
  app.add_flag("--endless", endless, "no episode need end within --steps");
  app.add_flag("--json", json, kJsonHelp);
  if (!parse(app, args)) return kSuccess;
  check_at_least("--steps", options.steps, 1);
  options.seeds_differ = !no_randomness;
  options.ends = !endless;
  options.raw_rewards = options.episode_per_end = evaluation;  // training may clip rewards and end with a life
  EnvRequest request;
  request.id = env;
  request.mode = evaluation ? EnvMode::kEvaluation : EnvMode::kTraining;
  set_env_args(request.args, env_args);
  const EnvFactory factory = [&] { return program().envs.make(request); };
  bool several = false;
  try {
    several = !factory()->spec().agents.empty();
  } catch (const Error& error) {
    throw UsageError(for_users(error.what()));
  }
  if (several) {
    throw UsageError("'" + env +
                     "' has several agents: check_parallel_env (parl/env/parallel_conformance.h) looks at those, in a "
                     "test");
  }
  return report(env, "parl/env/env.h", conformance_problems(factory, options), json);
}

int check_algorithm_named(const Arguments& args) {
  CLI::App app(
      "Lets an algorithm act and learn in small tasks and looks whether it keeps the promises of "
      "parl/agent/algorithm.h",
      "parl check algorithm");
  std::string algorithm;
  AlgorithmConformance options;
  bool json = false, monte_carlo = false;
  app.add_option("algorithm", algorithm, "algorithm (see: parl list algorithms)")->required();
  app.add_option("--preset", options.preset, "settings (default: its preset of the classic tasks, if there is one)");
  app.add_option("--model", options.model, "network (default: one with a layer or two)");
  app.add_option("--updates", options.updates, "batches of 128 steps within which the action that pays is found")
      ->capture_default_str();
  app.add_flag("--monte-carlo", monte_carlo,
               "it learns from returns as they were seen: what follows an end is nothing to it");
  app.add_option("--device", options.device, "what is compared with the CPU; auto: the first GPU, if there is one")
      ->capture_default_str();
  app.add_flag("--json", json, kJsonHelp);
  if (!parse(app, args)) return kSuccess;
  check_at_least("--updates", options.updates, 1);
  options.bootstraps = !monte_carlo;
  std::vector<std::string> problems;
  try {
    problems = algorithm_problems(algorithm, options);
  } catch (const Error& error) {
    throw UsageError(for_users(error.what()));  // no such algorithm, preset or network
  }
  return report(algorithm, "parl/agent/algorithm.h", problems, json);
}

}  // namespace

int verb_check(const Arguments& args) {
  const std::string what = args.empty() ? "--help" : args[0];
  if (what == "--help" || what == "-h") {
    std::cout << "Usage: parl check env NAME | parl check algorithm NAME      (each takes --help)\n";
    return args.empty() ? kUsage : kSuccess;
  }
  const Arguments rest(args.begin() + 1, args.end());
  if (what == "env") return check_env_named(rest);
  if (what == "algorithm") return check_algorithm_named(rest);
  throw UsageError("cannot check '" + what + "'" + did_you_mean(what, {"env", "algorithm"}) +
                   " (see: parl check --help)");
}

}  // namespace parl::cli
