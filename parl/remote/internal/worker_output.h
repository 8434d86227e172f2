// What a worker of the tcp engine prints goes where it always went, and to the learner's log.
//
// stdout and stderr become a pipe that a thread reads: it writes on to the old places and gives the text to the
// connection of the hour. A learner that cannot take it in time loses text, never the worker. At the process's exit
// what was printed last is delivered first, so that it is part of the error that the learner reports.
// One per process, for its whole life. Thread rule: any thread; restore() once.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "parl/remote/internal/connection.h"

namespace parl::internal {

class WorkerOutput {
 public:
  // Throws parl::Error without descriptors.
  WorkerOutput();
  ~WorkerOutput() { restore(); }
  WorkerOutput(const WorkerOutput&) = delete;
  WorkerOutput& operator=(const WorkerOutput&) = delete;

  // Null: nobody listens.
  void send_to(std::shared_ptr<Connection> connection);
  // Delivers what is there, and puts stdout and stderr back.
  void restore() noexcept;

 private:
  void run();
  void deliver(const char* text, size_t bytes);

  UniqueFd old_out_, old_error_, pipe_;
  std::mutex mutex_;
  std::shared_ptr<Connection> connection_;
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

}  // namespace parl::internal
