#include "parl/remote/internal/peer_meter.h"

#include <sys/resource.h>

#include "parl/core/process.h"

namespace parl::internal {
namespace {

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

double per_second(uint64_t count, double time) { return time > 0 ? static_cast<double>(count) / time : 0; }

}  // namespace

void PeerMeter::start() {
  std::lock_guard lock(mutex_);
  since_ = told_ = before_.when = last_.when = std::chrono::steady_clock::now();
}

void PeerMeter::note_facts(const WorkerFacts& facts) {
  std::lock_guard lock(mutex_);
  const Time now = std::chrono::steady_clock::now();
  const double time = seconds(now - told_);
  if (facts_.memory_bytes > 0 && time > 0) cpu_ = (facts.cpu_s - facts_.cpu_s) / time;
  facts_ = facts;
  told_ = now;
}

void PeerMeter::note_error(const std::string& text) {
  std::string kept = shortened(text, ManagerStatus::kLongestText);
  std::lock_guard lock(mutex_);
  error_ = std::move(kept);
}

void PeerMeter::sample(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  before_ = last_;
  last_ = {std::chrono::steady_clock::now(), answered_.load(std::memory_order_relaxed), bytes};
}

void PeerMeter::describe(WorkerStatus& status, uint64_t bytes_sent, uint64_t bytes_received) const {
  status.calls = answered_.load(std::memory_order_relaxed);
  status.bytes_sent = bytes_sent;
  status.bytes_received = bytes_received;
  std::lock_guard lock(mutex_);
  const Time now = std::chrono::steady_clock::now();
  const double time = seconds(now - before_.when);
  status.calls_per_s = per_second(status.calls - before_.calls, time);
  status.bytes_per_s = per_second(bytes_sent + bytes_received - before_.bytes, time);
  status.memory_bytes = facts_.memory_bytes;
  status.cpu = cpu_;
  status.age_s = seconds(now - since_);
  status.silent_s = seconds(now - told_);
  status.last_error = error_;
}

std::string shortened(const std::string& text, size_t most) {
  constexpr const char* kCut = "...";
  if (text.size() <= most) return text;
  size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not in the middle of a character
  return text.substr(0, end) + kCut;
}

WorkerFacts own_facts() {
  WorkerFacts facts;
  facts.memory_bytes = static_cast<uint64_t>(resident_bytes());
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  for (const timeval& time : {usage.ru_utime, usage.ru_stime})
    facts.cpu_s += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  return facts;
}

}  // namespace parl::internal
