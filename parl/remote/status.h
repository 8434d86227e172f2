// What a manager and its workers are doing: for people, for scripts, for Prometheus.
//
//   ManagerStatus now = manager.status();                       // of this program
//   ManagerStatus now = ask_status("tcp://learner:8037");       // of a learner elsewhere: `parl status`, `parl
//   workers`
//
// Asking disturbs nobody: the learner answers on its I/O thread from counters that it keeps anyway, whoever asks is no
// worker, may ask for nothing else, and must show the same token or certificate as a worker. Every list and text is
// bounded. Rates are those of the last two signs of life (by default 2.5 to 5 s). Thread rule: values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "parl/core/fields.h"
#include "parl/remote/stats.h"

namespace parl {

// One worker process of the tcp engine, or one program that offers an object (as_remote).
struct WorkerStatus {
  std::string host;
  int64_t pid = 0;
  std::string address;     // where it dials from, and its certificate's name if it has one
  bool is_object = false;  // as_remote: an object of its own; slots is 0 then
  int32_t slots = 0;       // how many objects it serves at once
  int32_t objects = 0;     // how many there are
  std::vector<int> gpus;   // that it offers, by its machine's numbers
  uint64_t calls = 0;      // answered, failures among them
  double calls_per_s = 0;
  uint64_t bytes_sent = 0, bytes_received = 0;  // by the learner
  double bytes_per_s = 0;                       // both ways together
  uint64_t memory_bytes = 0;                    // resident; 0: not told yet
  double cpu = 0;                               // processors that it keeps busy
  double age_s = 0;                             // since it was welcomed
  double silent_s = 0;                          // since it last reported, which it does all the time
  std::string last_error;                       // the last failure of a call or constructor there; empty: none
};
PARL_FIELDS(WorkerStatus, host, pid, address, is_object, slots, objects, gpus, calls, calls_per_s, bytes_sent,
            bytes_received, bytes_per_s, memory_bytes, cpu, age_s, silent_s, last_error);

struct ManagerStatus {
  static constexpr int kMostWorkers = 1000;  // listed
  static constexpr int kMostLosses = 8;
  static constexpr size_t kLongestText = 300;  // of an error, in bytes; the rest is cut off

  std::string engine;  // "tcp://0.0.0.0:8037"
  std::string host;
  int64_t pid = 0;
  double age_s = 0;
  uint64_t memory_bytes = 0;
  RemoteSlots slots;
  RemoteStats stats;
  int32_t workers = 0;                   // connected; more than are listed, if there are more than kMostWorkers
  int32_t offers = 0;                    // programs that offer an object (as_remote), not among the workers
  int32_t strangers = 0;                 // connections that have not said who they are
  uint64_t lost = 0;                     // workers that went without a goodbye
  uint64_t refused = 0;                  // that came and might not
  std::vector<std::string> last_losses;  // the newest first
  std::string last_refusal;
  std::vector<WorkerStatus> list;  // in the order of their coming; workers and offers
};
PARL_FIELDS(ManagerStatus, engine, host, pid, age_s, memory_bytes, slots, stats, workers, offers, strangers, lost,
            refused, last_losses, last_refusal, list);

// Asks the learner at `address`, with the token or certificates that the program's --parl-* options or its environment
// name. Throws parl::Error: nobody answers, or the learner refuses, and why.
ManagerStatus ask_status(const std::string& address, std::chrono::milliseconds timeout = std::chrono::seconds(10));

// In Prometheus' text format, version 0.0.4: parl_* with the labels host and pid.
std::string to_prometheus(const ManagerStatus& status);

}  // namespace parl
