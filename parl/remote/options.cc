#include "parl/remote/options.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/remote/engine_name.h"
#include "parl/remote/internal/auth.h"
#include "parl/remote/internal/class_info.h"
#include "parl/remote/internal/process_engine.h"
#include "parl/remote/internal/spawn.h"
#include "parl/remote/internal/tcp_worker.h"

namespace parl {
namespace {

constexpr std::string_view kPrefix = "--parl-";
const std::vector<std::string> kNames = {"--parl-engine",     "--parl-slots",        "--parl-spares",   "--parl-dir",
                                         "--parl-token-file", "--parl-certificates", "--parl-insecure", "--parl-worker",
                                         "--parl-gpus",       "--parl-metrics"};
constexpr std::string_view kWorker = "--parl-worker";  // tcp://host:port; fd:N for the library's own use
constexpr std::string_view kFd = "fd:";
constexpr std::string_view kInsecure = "--parl-insecure";  // the one without a value

struct CommandLine {
  std::mutex mutex;
  bool initialised = false;
  std::map<std::string, std::string, std::less<>> values;
};
CommandLine& command_line() {
  static CommandLine* line = new CommandLine;
  return *line;
}

int number_option(std::string_view name, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  PARL_CHECK(error == std::errc() && end == text.data() + text.size() && value >= 0,
             "{} wants a number from 0 on, not '{}'", name, text);
  return value;
}

// Takes the --parl-* options out of `args` and returns them.
std::map<std::string, std::string, std::less<>> take_options(std::vector<char*>& args) {
  std::map<std::string, std::string, std::less<>> found;
  std::vector<char*> rest;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    const bool is_ours = i > 0 && arg.substr(0, kPrefix.size()) == kPrefix;
    if (!is_ours) {
      rest.push_back(args[i]);
      if (i > 0 && arg == "--") {
        rest.insert(rest.end(), args.begin() + static_cast<long>(i) + 1, args.end());
        break;
      }
      continue;
    }
    const size_t equals = arg.find('=');
    const std::string name(arg.substr(0, equals));
    const bool is_known = std::find(kNames.begin(), kNames.end(), name) != kNames.end();
    PARL_CHECK(is_known, "unknown option {}{}; --parl-* options: {}", name, did_you_mean(name, kNames),
               fmt::join(kNames, ", "));
    if (name == kInsecure) {
      found[name] = "yes";
    } else if (equals != std::string_view::npos) {
      found[name] = std::string(arg.substr(equals + 1));
    } else {
      PARL_CHECK(i + 1 < args.size(), "{} wants a value", name);
      found[name] = args[++i];
    }
  }
  args = std::move(rest);
  return found;
}

void warn_about_threads() {
  size_t threads = 0;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator("/proc/self/task", error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    ++threads;
  }
  if (threads > 1) {
    log().warn(
        "this process has {} threads before it becomes a worker; make parl::init(argc, argv) the first statement of "
        "main",
        threads);
  }
}

void keep(std::map<std::string, std::string, std::less<>> found) {
  std::lock_guard lock(command_line().mutex);
  command_line().initialised = true;
  for (auto& [name, value] : found) command_line().values[name] = std::move(value);
}

// `rest`: what the user's parser would see, of which a worker of the tcp engine reads --slots and --gpus.
std::optional<std::string> worker_option(const std::vector<char*>& rest, std::string_view name) {
  for (size_t i = 1; i < rest.size(); ++i) {
    const std::string_view arg = rest[i];
    if (arg.substr(0, name.size()) != name) continue;
    const bool has_value = arg.size() > name.size() && arg[name.size()] == '=';
    if (!has_value && arg.size() > name.size()) continue;  // another one
    PARL_CHECK(has_value || i + 1 < rest.size(), "{} wants a value", name);
    return has_value ? std::string(arg.substr(name.size() + 1)) : rest[i + 1];
  }
  return std::nullopt;
}

[[noreturn]] void become_worker(const std::string& where, const std::vector<char*>& rest) {
  warn_about_threads();
  internal::check_factory();
  if (where.substr(0, kFd.size()) == kFd)
    internal::run_process_worker(number_option(kWorker, where.substr(kFd.size())));
  const Options options = internal::resolve({});
  internal::WorkerSettings settings;
  settings.address = where;
  if (const auto slots = worker_option(rest, "--slots")) settings.slots = number_option("--slots", *slots);
  const std::string gpus = worker_option(rest, "--gpus").value_or(options.gpus);
  settings.gpus = internal::find_gpus(gpus);
  const bool is_told = !gpus.empty() && gpus != "auto";
  if (is_told) internal::show_only(settings.gpus);  // before anything can have looked
  internal::run_tcp_worker(settings, internal::load_security(options));
}

// What cannot be understood is refused at once, not when a manager first needs it.
void check_values(const std::map<std::string, std::string, std::less<>>& found) {
  for (const auto& [name, value] : found) {
    if (name == "--parl-slots" || name == "--parl-spares") number_option(name, value);
    if (name == "--parl-engine") check_engine_name(value);
    if (name != "--parl-metrics") continue;
    try {
      internal::parse_address(value);
    } catch (const Error& error) {
      raise("{}: {}", name, error.what());
    }
  }
}

// Does not return in a worker.
void act_on(std::map<std::string, std::string, std::less<>> found, const std::vector<char*>& rest) {
  const auto it = found.find(kWorker);
  const std::string worker = it == found.end() ? "" : it->second;
  const bool dials = !worker.empty() && worker.substr(0, kFd.size()) != kFd;
  if (dials) internal::parse_address(worker);  // before anything is kept of what cannot be understood
  check_values(found);
  if (worker.empty()) internal::check_factory();
  keep(std::move(found));  // also in a worker: a manager made in there is a manager
  if (!worker.empty()) become_worker(worker, rest);
}

std::optional<std::string> option(std::string_view name) {
  std::lock_guard lock(command_line().mutex);
  const auto it = command_line().values.find(name);
  return it == command_line().values.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace

void init(int& argc, char** argv) {
  std::vector<char*> args(argv, argv + argc);
  auto found = take_options(args);
  for (size_t i = 0; i < args.size(); ++i) argv[i] = args[i];
  if (static_cast<int>(args.size()) < argc) argv[args.size()] = nullptr;
  argc = static_cast<int>(args.size());
  act_on(std::move(found), args);
}

namespace internal {

bool initialised() {
  std::lock_guard lock(command_line().mutex);
  return command_line().initialised;
}

// From /proc, for a program that makes a manager without init().
static void init_from_proc() {
  OwnArguments own;
  auto found = take_options(own.args);
  act_on(std::move(found), own.args);
}

Options resolve(Options o) {
  if (!initialised()) init_from_proc();
  if (o.engine.empty()) o.engine = option("--parl-engine").value_or("");
  if (o.engine.empty()) {
    const char* environment = std::getenv("PARL_ENGINE");
    o.engine = environment && *environment ? environment : "thread";
  }
  const auto number = [](int given, std::string_view name) {
    if (given >= 0) return given;
    const auto text = option(name);
    return text ? number_option(name, *text) : 0;
  };
  o.slots = number(o.slots, "--parl-slots");
  o.spares = number(o.spares, "--parl-spares");
  if (o.directory.empty()) o.directory = option("--parl-dir").value_or("");
  if (o.gpus.empty()) o.gpus = option("--parl-gpus").value_or("");
  if (o.metrics.empty()) o.metrics = option("--parl-metrics").value_or("");
  const auto text = [](std::string& given, std::string_view name, const char* variable) {
    if (given.empty()) given = option(name).value_or("");
    const char* environment = std::getenv(variable);
    if (given.empty() && environment) given = environment;
  };
  text(o.token_file, "--parl-token-file", "PARL_TOKEN_FILE");
  text(o.certificates, "--parl-certificates", "PARL_CERTIFICATES");
  o.insecure = o.insecure || option(kInsecure).has_value();
  PARL_CHECK(o.max_calls > 0, "Options::max_calls must leave room for one call");
  return o;
}

}  // namespace internal
}  // namespace parl
