// What every verb of the command line shares: exit codes, parsing with near names, the last JSON line, Ctrl-C.
//
// A verb is one function `int verb(const Arguments&)` in a file of its own. It declares its options with CLI11, calls
// parse(), works, and prints its results to stdout (everything else goes to stderr). Errors are exceptions: main()
// prints them and chooses the exit code.
//
//   int bench_env(const Arguments& args) {
//     CLI::App app("Steps per second of an environment", "parl bench env");
//     std::string env = "atari:pong";
//     bool json = false;
//     app.add_option("--env", env, "environment")->capture_default_str();
//     app.add_flag("--json", json, kJsonHelp);
//     if (!parse(app, args)) return kSuccess;   // --help was printed
//     ...
//     if (json) JsonLine().add("env", env).add("steps_per_s", rate).print();
//     return kSuccess;
//   }
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parl/core/check.h"

namespace CLI {
class App;
}

namespace parl::cli {

using Arguments = std::vector<std::string>;

enum ExitCode : int {
  kSuccess = 0,
  kFailure = 1,        // the work failed: its error is on stderr
  kUsage = 2,          // the command line cannot be understood
  kInterrupted = 130,  // Ctrl-C or SIGTERM; ended cleanly
};

// The command line is wrong: exit code kUsage.
class UsageError : public Error {
 public:
  using Error::Error;
};

inline constexpr const char* kJsonHelp = "the last line on stdout is one JSON object";

// False: --help was printed, nothing to do. Throws UsageError, naming the nearest option for an unknown one.
bool parse(CLI::App& app, const Arguments& args);

// Throws UsageError "<option> must be at least 1, not 0".
void check_at_least(const char* option, int64_t value, int64_t low);
// Throws UsageError unless 0 < value <= most; "<option> wants seconds ...".
void check_seconds(const char* option, double value, double most);

// An error's text without the place of a check in the program, which helps nobody who uses it.
std::string for_users(std::string text);

// "1..5", "1,4,7" or "3" -> numbers. Throws UsageError naming `option`.
std::vector<int64_t> parse_range(const std::string& text, const std::string& option);

// One JSON object on one line, keys in the order of add(); NaN and an empty optional are null.
class JsonLine {
 public:
  JsonLine& add(std::string_view key, double value);
  JsonLine& add(std::string_view key, int64_t value);
  JsonLine& add(std::string_view key, int value) { return add(key, static_cast<int64_t>(value)); }
  JsonLine& add(std::string_view key, bool value);
  JsonLine& add(std::string_view key, std::string_view value);
  JsonLine& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  JsonLine& add(std::string_view key, const std::string& value) { return add(key, std::string_view(value)); }
  JsonLine& add(std::string_view key, const std::optional<double>& value);
  JsonLine& add(std::string_view key, const std::vector<std::string>& values);
  JsonLine& add_raw(std::string_view key, std::string_view json);  // an array or object that is JSON already
  std::string text() const { return "{" + body_ + "}"; }
  void print() const;  // to stdout, with a newline, flushed

 private:
  void key(std::string_view name);
  std::string body_;
};

// From now on the first Ctrl-C (SIGINT) or SIGTERM sets the flag; a second one ends the program at once.
const std::atomic<bool>& stop_on_signals();

// What the verbs that live in other files offer to main.cc.
int verb_train(const Arguments& args);
int verb_check(const Arguments& args);
int verb_eval(const Arguments& args);
int verb_record(const Arguments& args);
int verb_list(const Arguments& args);
int verb_bench(const Arguments& args);
int verb_keygen(const Arguments& args);
int verb_status(const Arguments& args);
int verb_workers(const Arguments& args);
int verb_submit(const Arguments& args);
int bench_env(const Arguments& args);     // parl bench env
int bench_remote(const Arguments& args);  // parl bench remote
int bench_train(const Arguments& args);   // parl bench train

}  // namespace parl::cli
