#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "cli/env_args.h"
#include "parl/core/config.h"
#include "parl/core/interrupt.h"

namespace parl::cli {
namespace {

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

bool is_switch(const CLI::Option* option) { return option && option->get_items_expected_max() == 0; }

// "--double-q or --no-double-q", the second where there is one.
std::string both_ways(const CLI::App& app, const std::string& name) {
  const std::string no = "--no-" + name.substr(2);
  return name + (app.get_option_no_throw(no) ? " or " + no : "");
}

// The parser takes anything as a switch's value, and fails on much of it without a name.
void check_switches(const CLI::App& app, const Arguments& args) {
  for (const std::string& arg : args) {
    if (arg == "--") return;
    const size_t equals = arg.find('=');
    if (!arg.starts_with("--") || equals == std::string::npos) continue;
    const std::string name = arg.substr(0, equals), value = arg.substr(equals + 1);
    if (value == "true" || value == "false" || !is_switch(app.get_option_no_throw(name))) continue;
    throw UsageError(fmt::format("{} wants true or false, got '{}': write {}", name, value, both_ways(app, name)));
  }
}

// For `--auto-alpha false`, of which `false` is left over.
std::string switch_hint(const CLI::App& app, const Arguments& args, const std::string& extra) {
  if (extra != "true" && extra != "false") return "";
  const auto at = std::find(args.begin(), args.end(), extra);
  if (at == args.end() || at == args.begin() || !is_switch(app.get_option_no_throw(at[-1]))) return "";
  return fmt::format(": write {}={}, or {}", at[-1], extra, both_ways(app, at[-1]));
}

std::atomic<bool> stop_flag{false};

void on_signal(int signal) {
  if (stop_flag.exchange(true)) {  // the second time
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

bool parse(CLI::App& app, const Arguments& args) {
  check_switches(app, args);
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  app.allow_extras();
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help() << std::flush;
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return true;
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const std::string& s) { return s.starts_with("-"); });
  const std::string help = " (see: " + app.get_name() + " --help)";
  if (option == extras.end()) {
    throw UsageError("unexpected argument '" + extras[0] + "'" + switch_hint(app, args, extras[0]) + help);
  }
  const std::string name = option->substr(0, option->find('='));
  throw UsageError("unknown option '" + name + "'" + did_you_mean(name, option_names(app)) + help);
}

void check_at_least(const char* option, int64_t value, int64_t low) {
  if (value < low) throw UsageError(fmt::format("{} must be at least {}, not {}", option, low, value));
}

void check_seconds(const char* option, double value, double most) {
  if (!(value > 0 && value <= most))  // NaN is neither
    throw UsageError(fmt::format("{} wants a number of seconds above 0, at most {}, not {}", option, most, value));
}

std::string for_users(std::string text) {
  const size_t place = text.rfind(" [check failed: ");
  if (place != std::string::npos && text.ends_with(")]")) text.erase(place);
  return text;
}

std::vector<int64_t> parse_range(const std::string& text, const std::string& option) {
  const auto number = [&](std::string_view part) {
    int64_t value = 0;
    const auto [at, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || at != part.data() + part.size() || value < 0) {
      throw UsageError(fmt::format("{} wants numbers as in 1..5 or 1,4,7, got '{}'", option, text));
    }
    return value;
  };
  std::vector<int64_t> out;
  std::string_view rest = text;
  if (const size_t dots = rest.find(".."); dots != std::string_view::npos) {
    const int64_t first = number(rest.substr(0, dots)), last = number(rest.substr(dots + 2));
    if (first > last || last - first > 999) throw UsageError(fmt::format("{}: '{}' is not a range", option, text));
    for (int64_t i = first; i <= last; ++i) out.push_back(i);
    return out;
  }
  for (;;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    out.push_back(number(rest.substr(0, comma)));
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  std::vector<int64_t> sorted = out;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    throw UsageError(fmt::format("{}: '{}' names a number twice", option, text));
  return out;
}

void JsonLine::key(std::string_view name) {
  if (!body_.empty()) body_ += ", ";
  body_ += quote(name) + ": ";
}

JsonLine& JsonLine::add(std::string_view name, double value) {
  key(name);
  body_ += std::isfinite(value) ? fmt::format("{}", value) : "null";
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, int64_t value) {
  key(name);
  body_ += fmt::format("{}", value);
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, bool value) {
  key(name);
  body_ += value ? "true" : "false";
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, std::string_view value) {
  key(name);
  body_ += quote(value);
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, const std::optional<double>& value) {
  return value ? add(name, *value) : add_raw(name, "null");
}

JsonLine& JsonLine::add(std::string_view key, const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += (list.empty() ? "" : ", ") + quote(value);
  return add_raw(key, "[" + list + "]");
}

JsonLine& JsonLine::add_raw(std::string_view name, std::string_view json) {
  key(name);
  body_ += json;
  return *this;
}

void JsonLine::print() const { std::cout << text() << std::endl; }

const std::atomic<bool>& stop_on_signals() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGHUP, on_signal);  // the terminal went away: end with a checkpoint
  std::signal(SIGPIPE, SIG_IGN);   // nobody reads what is printed: the work goes on
  set_interrupt_flag(&stop_flag);
  return stop_flag;
}

namespace {
struct EnvArgsOption {
  std::map<std::string, std::string> env_args;
};
PARL_CONFIG(EnvArgsOption, (env_args, "options of the environment"));
}  // namespace

void add_env_args(CLI::App& app, std::vector<std::string>& texts, const std::string& help) {
  app.add_option("--env-args", texts, help + ", repeatable")->allow_extra_args(false)->type_name("key=value,...");
}

void set_env_args(std::map<std::string, std::string>& args, const std::vector<std::string>& texts) {
  EnvArgsOption option;
  try {
    config_set(config_fields(option), "env-args", fmt::format("{}", fmt::join(texts, ",")));
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  for (auto& [name, value] : option.env_args) args[name] = value;
}

}  // namespace parl::cli
