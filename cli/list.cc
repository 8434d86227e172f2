// parl list envs [NAME]|algorithms|models|presets
#include <CLI/CLI.hpp>
#include <algorithm>
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

bool begins(const std::string& name, const std::string& with) { return name.starts_with(with); }

Rows envs(const std::string& of) {
  Rows rows;
  for (const EnvFamily& family : program().envs.families()) {
    for (const std::string& name : family.names()) {
      if (begins(name, of)) rows.emplace_back(name, family.summary);
    }
    if (family.open && begins(family.prefix + ":ID", of)) rows.emplace_back(family.prefix + ":ID", family.summary);
  }
  return rows;
}

// A family of many is a paragraph.
void print_families() {
  constexpr size_t kMany = 4, kWidth = 110;
  for (const EnvFamily& family : program().envs.families()) {
    const std::vector<std::string> names = family.names();
    if (names.size() < kMany) {
      for (const std::string& name : names) std::cout << fmt::format("{:<28} {}\n", name, family.summary);
      if (family.open) std::cout << fmt::format("{:<28} {}\n", family.prefix + ":ID", family.summary);
      continue;
    }
    std::cout << fmt::format("{:<28} {}\n", fmt::format("{}: ({})", family.prefix, names.size()), family.summary);
    std::string line = " ";
    for (const std::string& name : names) {
      if (line.size() + name.size() > kWidth) {
        std::cout << line << "\n";
        line = " ";
      }
      line += " " + name;
    }
    std::cout << line << "\n";
  }
  std::cout << "\nTheir options: parl list envs NAME, or the beginning of names (Ant, atari:)\n";
}

// Of the families that have names which begin with `of`.
void print_options(const std::string& of) {
  for (const EnvFamily& family : program().envs.families()) {
    const std::vector<std::string> names = family.names();
    const bool meant = std::any_of(names.begin(), names.end(), [&](const std::string& n) { return begins(n, of); }) ||
                       (family.open && begins(family.prefix + ":ID", of));
    if (family.options.empty() || !meant) continue;
    std::cout << fmt::format("\nOptions of {} (--env-args name=value):\n",
                             family.prefix.empty() ? family.names().front() : family.prefix + ":*");
    for (const EnvOption& option : family.options) {
      std::cout << fmt::format("  {:<22} {} [{}]\n", option.name, option.help, option.default_value);
    }
  }
}

}  // namespace

int verb_list(const Arguments& args) {
  CLI::App app("What there is: parl list envs [NAME]|algorithms|models|presets", "parl list");
  std::string what, of;
  bool json = false;
  app.add_option("what", what, "envs, algorithms, models or presets")->required();
  app.add_option("name", of, "those whose names begin so; of environments their options, too");
  app.add_flag("--json", json, std::string(kJsonHelp) + ": {\"<what>\": [names]}");
  if (!parse(app, args)) return kSuccess;

  Rows rows;
  if (what == "envs") {
    rows = envs(of);
  } else if (what == "algorithms") {
    rows = algorithms();
  } else if (what == "models") {
    rows = models();
  } else if (what == "presets") {
    rows = preset_rows();
  } else {
    throw UsageError("cannot list '" + what + "'" + did_you_mean(what, {"envs", "algorithms", "models", "presets"}) +
                     " (see: parl list --help)");
  }
  std::vector<std::string> all, names;
  for (const auto& [name, summary] : rows) all.push_back(name);
  std::erase_if(rows, [&](const auto& row) { return !begins(row.first, of); });
  if (rows.empty()) {
    if (what == "envs") program().envs.make({.id = of});  // throws with the near names
    throw UsageError("none of the " + what + " is called '" + of + "'" + did_you_mean(of, all));
  }
  for (const auto& [name, summary] : rows) names.push_back(name);
  if (what == "envs" && of.empty()) {
    print_families();
  } else {
    for (const auto& [name, summary] : rows) std::cout << fmt::format("{:<28} {}\n", name, summary);
    if (what == "envs") print_options(of);
  }
  std::cout << std::flush;
  if (json) JsonLine().add(what, names).print();
  return kSuccess;
}

}  // namespace parl::cli
