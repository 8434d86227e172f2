// What a learner notes about one worker for its status: calls, bytes, what the worker tells of its process, its last
// error. Thread rule: any thread; count_answer() costs one relaxed addition.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "parl/remote/internal/tcp_protocol.h"
#include "parl/remote/status.h"

namespace parl::internal {

class PeerMeter {
 public:
  // The worker is welcome now.
  void start();
  void count_answer() { answered_.fetch_add(1, std::memory_order_relaxed); }
  void note_facts(const WorkerFacts& facts);
  void note_error(const std::string& text);
  // From time to time, for the rates. `bytes`: both ways, so far.
  void sample(uint64_t bytes);
  // Fills in all that is measured.
  void describe(WorkerStatus& status, uint64_t bytes_sent, uint64_t bytes_received) const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Sample {
    Time when{};
    uint64_t calls = 0, bytes = 0;
  };
  std::atomic<uint64_t> answered_{0};
  mutable std::mutex mutex_;
  Time since_{}, told_{};
  Sample before_, last_;  // rates are taken from the older one to now
  WorkerFacts facts_;
  double cpu_ = 0;
  std::string error_;
};

// At most `most` bytes of UTF-8, with "..." where something is cut off.
std::string shortened(const std::string& text, size_t most);

// Of this process.
WorkerFacts own_facts();

}  // namespace parl::internal
