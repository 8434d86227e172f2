// parl: train, evaluate, list, measure. One file per verb; what they share is in command.h.
#include "cli/command_line.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "parl/core/files.h"
#include "parl/core/interrupt.h"
#include "parl/remote/options.h"
#include "parl/train/train_config.h"

namespace {

using parl::cli::Arguments;

struct Verb {
  const char* name;
  const char* summary;
  int (*run)(const Arguments&);
};

constexpr Verb kVerbs[] = {
    {"train", "teach an agent: parl train impala --env atari:pong", parl::cli::verb_train},
    {"eval", "let a trained agent play: parl eval runs/pong --episodes 10 --video pong.gif", parl::cli::verb_eval},
    {"record", "keep an agent's episodes to learn from: parl record runs/pong --out demos.safetensors",
     parl::cli::verb_record},
    {"check", "does your own keep the promises: parl check env Maze-v0 | parl check algorithm reinforce",
     parl::cli::verb_check},
    {"list", "what there is: parl list envs|algorithms|models|presets", parl::cli::verb_list},
    {"bench", "measure: parl bench env|remote|train", parl::cli::verb_bench},
    {"keygen", "guard tcp: parl keygen token FILE | parl keygen certificates DIR HOST...", parl::cli::verb_keygen},
    {"status", "what a learner is doing: parl status tcp://learner:8037", parl::cli::verb_status},
    {"workers", "a row for each worker of a learner: parl workers tcp://learner:8037", parl::cli::verb_workers},
    {"submit", "workers on many machines: parl submit --on ssh|slurm|k8s|ray -n 64 -- ./my_program",
     parl::cli::verb_submit},
};

std::string usage() {
  std::string text =
      "parl: reinforcement learning where one modifier makes a class parallel\n\nUsage: parl VERB [options]      (parl "
      "VERB --help)\n\n";
  for (const Verb& verb : kVerbs) text += fmt::format("  {:<8} {}\n", verb.name, verb.summary);
  text +=
      "\n  --version, --help\n\nEvery verb takes --json: its last line on stdout is then one JSON object. Programs "
      "with remote objects take\n"
      "--parl-engine inline|thread|process|tcp://host:port. Exit codes: 0 success, 1 failure, 2 wrong usage, 130 "
      "interrupted.\n";
  return text;
}

int run(const Arguments& args) {
  if (args.empty()) {
    std::fputs(usage().c_str(), stderr);
    return parl::cli::kUsage;
  }
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    fmt::print("{}", usage());
    return parl::cli::kSuccess;
  }
  if (args[0] == "--version") {
    fmt::print("parl {}\n", PARL_VERSION);
    return parl::cli::kSuccess;
  }
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) {
    if (args[0] == verb.name) return verb.run(Arguments(args.begin() + 1, args.end()));
    names.emplace_back(verb.name);
  }
  names.insert(names.end(), {"--help", "--version"});
  throw parl::cli::UsageError("there is no verb '" + args[0] + "'" + parl::did_you_mean(args[0], names) +
                              " (see: parl --help)");
}

// Does not throw: standard error may be gone.
int report(const std::exception& error, int code) {
  std::fputs(fmt::format("parl: {}\n", parl::cli::for_users(error.what())).c_str(), stderr);
  return code;
}

// Results that nobody got are a failure.
void check_output() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::cout && std::ferror(stdout) == 0) return;
  if (errno) throw parl::Error(parl::file_error("write", "standard output", errno));
  throw parl::Error("cannot write 'standard output': some of what was printed is lost");
}

int run_checked(const Arguments& args) {
  try {
    const int code = run(args);
    if (code == parl::cli::kSuccess) check_output();
    return code;
  } catch (const parl::cli::UsageError& error) {
    return report(error, parl::cli::kUsage);
  } catch (const parl::SettingsError& error) {
    return report(error, parl::cli::kUsage);
  } catch (const parl::Interrupted& error) {
    return report(error, parl::cli::kInterrupted);
  } catch (const std::exception& error) {
    return report(error, parl::cli::kFailure);
  }
}

}  // namespace

int parl::command_line(int argc, char** argv) {
  try {
    parl::init(argc, argv);
  } catch (const std::exception& error) {
    return report(error, parl::cli::kUsage);
  }
  return run_checked(Arguments(argv + 1, argv + argc));
}
