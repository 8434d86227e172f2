// parl list envs|algorithms|models|presets
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/command.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"

namespace parl::cli {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;  // name, summary

Rows algorithms() {
  Rows rows;
  for (const AlgorithmEntry& entry : program().algorithms) rows.emplace_back(entry.name, entry.summary);
  return rows;
}

Rows models() {
  Rows rows;
  for (const std::string& name : program().models.names()) rows.emplace_back(name, program().models.help(name));
  return rows;
}

Rows preset_rows() {
  Rows rows;
  for (const Preset& p : presets()) rows.emplace_back(p.algorithm + " " + p.name, p.summary);
  return rows;
}

Rows envs() {
  Rows rows;
  for (const EnvFamily& family : program().envs.families()) {
    for (const std::string& name : family.names()) rows.emplace_back(name, family.summary);
    if (family.open) rows.emplace_back(family.prefix + ":ID", family.summary);
  }
  return rows;
}

void print_options() {
  for (const EnvFamily& family : program().envs.families()) {
    if (family.options.empty()) continue;
    std::cout << fmt::format("\nOptions of {} (--env-args name=value):\n",
                             family.prefix.empty() ? family.names().front() : family.prefix + ":*");
    for (const EnvOption& option : family.options) {
      std::cout << fmt::format("  {:<22} {} [{}]\n", option.name, option.help, option.default_value);
    }
  }
}

}  // namespace

int verb_list(const Arguments& args) {
  struct What {
    const char* name;
    Rows (*rows)();
  };
  static constexpr What kWhats[] = {
      {"envs", envs}, {"algorithms", algorithms}, {"models", models}, {"presets", preset_rows}};

  CLI::App app("What there is: parl list envs|algorithms|models|presets", "parl list");
  std::string what;
  bool json = false;
  app.add_option("what", what, "envs, algorithms, models or presets")->required();
  app.add_flag("--json", json, std::string(kJsonHelp) + ": {\"<what>\": [names]}");
  if (!parse(app, args)) return kSuccess;

  std::vector<std::string> names;
  for (const What& w : kWhats) {
    names.emplace_back(w.name);
    if (what != w.name) continue;
    const Rows rows = w.rows();
    std::string list;
    for (const auto& [name, summary] : rows) {
      std::cout << fmt::format("{:<28} {}\n", name, summary);
      list += (list.empty() ? "\"" : ", \"") + name + "\"";
    }
    if (what == "envs") print_options();
    std::cout << std::flush;
    if (json) JsonLine().add_raw(what, "[" + list + "]").print();
    return kSuccess;
  }
  throw UsageError("cannot list '" + what + "'" + did_you_mean(what, names) + " (see: parl list --help)");
}

}  // namespace parl::cli
