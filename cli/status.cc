// parl status ADDRESS: what a learner is doing. parl workers ADDRESS: a row for each of its workers.
//
// --json: the fields of parl::ManagerStatus (parl/remote/status.h) by their names, "list" being an array with one
// object per worker; `workers` prints the same object as `status`.
#include "parl/remote/status.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <type_traits>

#include "cli/command.h"

namespace parl::cli {
namespace {

template <typename T>
std::string json_of(const T& object);

template <typename T>
void add_field(JsonLine& line, const char* name, const T& value) {
  if constexpr (HasFields<T>) {
    line.add_raw(name, json_of(value));
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, double> || std::is_same_v<T, std::string>) {
    line.add(name, value);
  } else if constexpr (std::is_integral_v<T>) {
    line.add(name, static_cast<int64_t>(value));
  } else {
    std::string items;
    for (const auto& item : value) {
      JsonLine one;
      add_field(one, "", item);  // {"": item}
      const std::string text = one.text();
      constexpr size_t kBefore = 5, kAfter = 1;
      items += (items.empty() ? "" : ", ") + text.substr(kBefore, text.size() - kBefore - kAfter);
    }
    line.add_raw(name, "[" + items + "]");
  }
}

template <typename T>
std::string json_of(const T& object) {
  JsonLine line;
  for_each_field(object, [&](const char* name, const auto& value, const char*) { add_field(line, name, value); });
  return line.text();
}

std::string time_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole >= 86400) return fmt::format("{} d {:02} h", whole / 86400, whole / 3600 % 24);
  if (whole >= 3600) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{:.1f} s", seconds);
}

std::string bytes_text(double bytes) {
  for (const char* unit : {"B", "kB", "MB", "GB"}) {
    if (bytes < 1000) return fmt::format("{:.{}f} {}", bytes, bytes < 10 && unit[0] != 'B' ? 1 : 0, unit);
    bytes /= 1000;
  }
  return fmt::format("{:.1f} TB", bytes);
}

// What a worker says of itself must not steer the terminal.
std::string plain(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  return text;
}

void print_status(const ManagerStatus& s) {
  fmt::print("learner  {}, process {} on {}, since {}, {}\n", s.engine, s.pid, plain(s.host), time_text(s.age_s),
             bytes_text(static_cast<double>(s.memory_bytes)));
  fmt::print("objects  {} of {} slots, {} vacant; {} created, {} built again after a loss\n", s.slots.used,
             s.slots.total == 0 ? "any number of" : std::to_string(s.slots.total), s.slots.vacant,
             s.stats.objects_created, s.stats.restarts);
  fmt::print("calls    {} accepted, {} failed, {} late results\n", s.stats.calls, s.stats.errors, s.stats.late_results);
  fmt::print("workers  {} connected, {} lost, {} refused; {} programs offer an object; {} strangers\n", s.workers,
             s.lost, s.refused, s.offers, s.strangers);
  for (const std::string& loss : s.last_losses) fmt::print("lost     {}\n", plain(loss));
  if (!s.last_refusal.empty()) fmt::print("refused  {}\n", plain(s.last_refusal));
}

void print_workers(const ManagerStatus& s) {
  constexpr const char* kRow = "{:<20} {:>8} {:>9} {:>10} {:>10} {:>9} {:>5} {:>13} {:>9}  {}\n";
  fmt::print(kRow, "HOST", "PID", "OBJECTS", "CALLS/S", "BYTES/S", "MEMORY", "CPU", "AGE", "SILENT", "LAST ERROR");
  for (const WorkerStatus& w : s.list) {
    const std::string objects = w.is_object ? "as_remote" : fmt::format("{}/{}", w.objects, w.slots);
    fmt::print(kRow, plain(w.host), w.pid, objects, fmt::format("{:.1f}", w.calls_per_s), bytes_text(w.bytes_per_s),
               bytes_text(static_cast<double>(w.memory_bytes)), fmt::format("{:.1f}", w.cpu), time_text(w.age_s),
               time_text(w.silent_s), w.last_error.empty() ? "-" : plain(w.last_error));
  }
  const size_t all = static_cast<size_t>(s.workers) + static_cast<size_t>(s.offers);
  if (all > s.list.size()) fmt::print("... and {} more\n", all - s.list.size());
  if (all == 0) fmt::print("no workers; start some: <program> --parl-worker {} --slots N\n", s.engine);
}

int ask(const Arguments& args, const char* name, const char* summary, void (*print)(const ManagerStatus&)) {
  CLI::App app(summary, name);
  std::string address;
  double timeout = 10;
  bool json = false;
  app.add_option("ADDRESS", address, "the learner's: tcp://host:port, as its workers dial it")->required();
  app.add_option("--timeout", timeout, "seconds to wait for an answer")->capture_default_str();
  app.add_flag("--json", json, kJsonHelp);
  if (!parse(app, args)) return kSuccess;
  constexpr double kLongest = 86400;
  check_seconds("--timeout", timeout, kLongest);
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(timeout));
  const ManagerStatus status = ask_status(address, limit);
  print(status);
  std::fflush(stdout);
  if (json) std::cout << json_of(status) << std::endl;
  return kSuccess;
}

}  // namespace

int verb_status(const Arguments& args) {
  return ask(args, "parl status", "What a learner is doing (PARL_TOKEN_FILE, PARL_CERTIFICATES as for its workers)",
             print_status);
}

int verb_workers(const Arguments& args) {
  return ask(args, "parl workers",
             "A row for each worker of a learner (PARL_TOKEN_FILE, PARL_CERTIFICATES as for them)", print_workers);
}

}  // namespace parl::cli
