#include "parl/remote/status.h"

#include <unistd.h>

#include <functional>
#include <string_view>

#include "parl/remote/internal/peer_meter.h"
#include "parl/remote/internal/status.h"

namespace parl {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

class PrometheusText {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP parl_{0} {2}\n# TYPE parl_{0} {1}\n", name, type, help);
  }
  template <typename Value>
  void one(std::string_view name, std::string_view type, std::string_view help, Value value) {
    family(name, type, help);
    text_ += fmt::format("parl_{} {}\n", name, value);
  }
  template <typename Value>
  void per_worker(const ManagerStatus& status, std::string_view name, std::string_view type, std::string_view help,
                  Value WorkerStatus::*value) {
    if (status.list.empty()) return;
    family(name, type, help);
    for (const WorkerStatus& worker : status.list)
      text_ +=
          fmt::format("parl_{}{{host=\"{}\",pid=\"{}\"}} {}\n", name, escaped(worker.host), worker.pid, worker.*value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

std::string to_prometheus(const ManagerStatus& s) {
  constexpr std::string_view kGauge = "gauge", kCounter = "counter";
  PrometheusText out;
  out.one("age_seconds", kGauge, "Since the manager began.", s.age_s);
  out.one("memory_bytes", kGauge, "Resident memory of the manager's process.", s.memory_bytes);
  out.one("slots", kGauge, "Objects that may live at once; 0: no limit.", s.slots.total);
  out.one("slots_used", kGauge, "Objects that live.", s.slots.used);
  out.one("objects_created_total", kCounter, "Objects created.", s.stats.objects_created);
  out.one("calls_total", kCounter, "Calls accepted.", s.stats.calls);
  out.one("errors_total", kCounter, "Calls that failed.", s.stats.errors);
  out.one("late_results_total", kCounter, "Results that came after their caller had gone.", s.stats.late_results);
  out.one("restarts_total", kCounter, "Objects built again after a loss.", s.stats.restarts);
  out.one("workers", kGauge, "Worker processes that are connected.", s.workers);
  out.one("offers", kGauge, "Programs that offer an object of their own.", s.offers);
  out.one("workers_lost_total", kCounter, "Workers that went without a goodbye.", s.lost);
  out.one("workers_refused_total", kCounter, "Workers that came and might not.", s.refused);
  out.per_worker(s, "worker_slots", kGauge, "Objects that it serves at once.", &WorkerStatus::slots);
  out.per_worker(s, "worker_objects", kGauge, "Objects that it has.", &WorkerStatus::objects);
  out.per_worker(s, "worker_calls_total", kCounter, "Calls that it has answered.", &WorkerStatus::calls);
  out.per_worker(s, "worker_sent_bytes_total", kCounter, "Sent to it.", &WorkerStatus::bytes_sent);
  out.per_worker(s, "worker_received_bytes_total", kCounter, "Received from it.", &WorkerStatus::bytes_received);
  out.per_worker(s, "worker_memory_bytes", kGauge, "Its resident memory.", &WorkerStatus::memory_bytes);
  out.per_worker(s, "worker_cpu", kGauge, "Processors that it keeps busy.", &WorkerStatus::cpu);
  out.per_worker(s, "worker_age_seconds", kGauge, "Since it was welcomed.", &WorkerStatus::age_s);
  out.per_worker(s, "worker_silent_seconds", kGauge, "Since it last reported.", &WorkerStatus::silent_s);
  return out.take();
}

namespace internal {

ManagerStatus describe_manager(Engine& engine, const ManagerShared& shared) {
  ManagerStatus status;
  status.engine = shared.options.engine;
  status.host = this_host();
  status.pid = ::getpid();
  status.age_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - shared.since).count();
  status.memory_bytes = own_facts().memory_bytes;
  status.slots = engine.slots(shared.slots->read());
  status.stats = shared.stats.read();
  engine.describe(status);
  return status;
}

}  // namespace internal
}  // namespace parl
