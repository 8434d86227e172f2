// How a worker of the tcp engine ends when it is not the learner's doing, so that the learner hears at once and is told
// why.
//
//   SIGTERM          a request: the worker says goodbye ("worker was asked to stop (SIGTERM)"), running methods see
//                    stop_requested() and have half a second. A second one ends the process at once.
//   SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS
//                    a failure: the handler wakes the thread that sends the output (worker_output.h), which tells the
//                    learner the signal's name; after a second at most the process dies of that signal as it would have
//                    anyway, core dump included.
// A signal for which the program has a handler of its own (a sanitizer's, say) is left alone. Such handlers are in
// worker processes alone, which never leave parl::init; a learner's program is left in peace. Thread rule: once, by the
// thread that becomes the worker.
#pragma once

#include <functional>
#include <memory>

#include "parl/remote/internal/worker_output.h"

namespace parl::internal {

// `output` lives as long as the process. `leave` runs on a thread of its own when SIGTERM comes; it does not return.
void listen_to_signals(WorkerOutput& output, std::function<void()> leave);

// While it lives, handlers run on a stack of their own on this thread: also an overflow of its stack can be told.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<char[]> memory_;  // null: this thread has one already
};

}  // namespace parl::internal
