// What a thread knows while it works for a remote object.
#pragma once

#include <memory>

#include "parl/remote/internal/engine.h"

namespace parl::internal {

// Lives on an object's thread around its constructor, methods and destructor; engines install it. The first one on a
// thread runs the on_object_thread hooks if asked.
class ObjectThread {
 public:
  // `channel` is null in a worker process, whose channel is at the other end.
  ObjectThread(const Placement& placement, ObjectChannel* channel);
  virtual ~ObjectThread();
  ObjectThread(const ObjectThread&) = delete;
  ObjectThread& operator=(const ObjectThread&) = delete;

  // Null: this thread does not work for an object.
  static ObjectThread* current();

  const Placement& placement();  // makes the directory
  ObjectChannel* channel() const { return channel_; }
  // Whether the running method was given up; may look for news (a worker reads its socket here). Called often.
  virtual bool stop_requested() { return false; }

 private:
  Placement placement_;
  ObjectChannel* channel_;
  ObjectThread* before_;
  bool has_directory_ = false;
};

// Runs the hooks of on_object_thread. Throws what they throw.
void run_object_thread_hooks();

// Pins the calling thread to placement.cores, if given. Throws parl::Error naming the cores that do not exist.
void pin_to_cores(const Placement& placement);

// While it lives, the calling thread's object (if any) waits for `target`. Throws RemoteError `refused` with the chain
// of calls when `target` waits, directly or not, for that object: it would wait for itself.
class WaitEdge {
 public:
  WaitEdge(ObjectChannel* target, const char* method);
  ~WaitEdge();
  WaitEdge(const WaitEdge&) = delete;
  WaitEdge& operator=(const WaitEdge&) = delete;

 private:
  ObjectChannel* waiter_ = nullptr;
  ObjectChannel* before_ = nullptr;
};

// True in a child made by fork() after this library was first used: handles do nothing there.
bool in_forked_child(int64_t creator_generation);
int64_t fork_generation();

}  // namespace parl::internal
