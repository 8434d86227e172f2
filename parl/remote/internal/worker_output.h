// What a worker of the tcp engine prints goes where it always went, and to the learner's log.
//
// stdout and stderr become pipes that a thread reads: it writes on to the old places and gives the text to the
// connection of the hour. A learner that cannot take it in time loses text, never the worker. At the process's exit,
// and when an exception or a signal ends it, what was printed last is delivered first, so that it is part of the error
// that the learner reports.
// One per process, for its whole life. Thread rule: any thread.
#pragma once

#include <array>
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
  // The process is dying, and this is why: what was printed is delivered, then this. Waits for that, a second at most.
  // Only the first word counts. May be called in a signal handler. `why` is not copied.
  void say_last(const char* why) noexcept;
  // Delivers what is there, and puts stdout and stderr back.
  void restore() noexcept;

 private:
  struct Stream {
    UniqueFd old, pipe;  // pipe empty: it is over
  };
  void redirect(Stream& stream, int descriptor);
  void run();
  bool pump(Stream& stream);
  void deliver(int to, const char* text, size_t bytes);
  void deliver_last(const char* why);

  std::array<Stream, 2> streams_;
  UniqueFd wake_;
  std::mutex mutex_;
  std::shared_ptr<Connection> connection_;
  std::atomic<bool> is_ending_{false}, is_over_{false};
  std::atomic<const char*> last_{nullptr};
  std::thread thread_;
};

}  // namespace parl::internal
