// The side that dials in: a worker process that offers slots, or a program that offers an object of its own.
//
// It dials until the learner answers, and again when the learner has gone, with growing pauses; so either may start
// first, and a learner that comes back finds its workers. Learners are judged mildly: one that is stopped for minutes
// is not lost, only one whose machine does not answer or which closes the connection. Thread rule: see each class.
#pragma once

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "parl/remote/internal/auth.h"
#include "parl/remote/internal/class_info.h"
#include "parl/remote/internal/connection.h"
#include "parl/remote/internal/gpus.h"
#include "parl/remote/internal/hosted_object.h"
#include "parl/remote/internal/worker_output.h"

namespace parl::internal {

struct WorkerSettings {
  std::string address;
  int slots = 1;
  Gpus gpus = {};  // on offer
};

// One connection's life at the worker's end. Any thread; on_*() on the I/O thread.
class WorkerSession final : public Connection::Listener, public std::enable_shared_from_this<WorkerSession> {
 public:
  // `object`: the class of the one object on offer, else null: slots for any class of this program. `output`: sends to
  // the learner from its welcome on; may be null.
  WorkerSession(const Security& security, const WorkerSettings& settings, const ClassInfo* object,
                WorkerOutput* output);

  // Waits until the learner has said welcome, or the end, or `deadline`. False: not welcome.
  bool wait_welcome(TimePoint deadline);
  // Also returns when must_end_by_force().
  void wait_end(TimePoint deadline = kForever);
  // The object on offer, once the learner takes it. Null: the connection has ended.
  std::shared_ptr<HostedObject> wait_taken();
  // Tells the learner that this side leaves, and ends.
  void bye(const std::string& why);
  void end(const std::string& why);
  // After the end: lets all objects end. False: some have not by `deadline`; then the process must end.
  bool end_objects(TimePoint deadline);

  std::string why() const;         // it ended
  bool was_refused() const;        // by the learner, or by this side
  bool must_end_by_force() const;  // the learner says that objects are left over

  void on_open(const std::shared_ptr<Connection>& self) override;
  void on_frame(uint32_t object, Frame frame) override;
  void on_beat() override { tell_facts(); }
  void on_end(const std::string& why) override;

 private:
  void on_control(Frame frame);
  void on_challenge(Reader& reader);
  void on_welcome(Reader& reader);
  void on_bye(Reader& reader);
  void tell_facts();
  void give_up(const std::string& why);
  void on_version(Frame frame);
  void begin(uint32_t number, Frame frame);
  void run(uint32_t number, const std::shared_ptr<HostedObject>& object);
  void leave(uint32_t number);

  const Security security_;
  const int slots_;
  const Gpus gpus_;
  const ClassInfo* const object_;
  WorkerOutput* const output_;
  const Greeting own_;
  const std::shared_ptr<VersionShelf> versions_ = std::make_shared<VersionShelf>();
  sigset_t signals_;  // what is blocked for objects: as on the thread that dials
  Greeting learner_;  // the loop's
  enum class Stage { kHello, kProof, kServing } stage_ = Stage::kHello;  // the loop's
  std::shared_ptr<Connection> connection_;                               // set before anything else happens

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_welcome_ = false, is_ended_ = false, was_refused_ = false, must_force_ = false;
  std::string why_, why_left_;  // why_left_: what bye() said
  std::map<uint32_t, std::shared_ptr<HostedObject>> objects_;
  size_t running_ = 0;  // threads that are in code of objects
  std::shared_ptr<HostedObject> taken_;
};

// Dials one learner. One thread.
class Dialer {
 public:
  // Throws parl::Error: nothing guards the way there.
  Dialer(const WorkerSettings& settings, Security security, WorkerOutput* output = nullptr);
  // A session that the learner has welcomed. Dials for as long as it takes, or until `deadline`: then null.
  std::shared_ptr<WorkerSession> dial(const ClassInfo* object, TimePoint deadline);

 private:
  std::shared_ptr<WorkerSession> attempt(const ClassInfo* object, TimePoint deadline, std::string& why,
                                         bool& was_refused);
  void report(const std::string& why);
  void pause(bool was_refused, TimePoint deadline);

  const WorkerSettings settings_;
  const Address address_;
  const Security security_;
  WorkerOutput* const output_;
  std::string reported_;
  std::chrono::milliseconds pause_{0};
  TimePoint welcomed_ = kNoWait;  // the last time
  IoLoop loop_;
};

// `--parl-worker tcp://...`: serves learners until the process is ended; or, with PARL_WORKER_PATIENCE=<seconds> in the
// environment, until it has been without a learner for that long: then it exits, with 0 if it ever had one, else
// with 1. PARL_WORKER_FIRST_PATIENCE, if it is set, is the time for the first one; 0: for ever.
[[noreturn]] void run_tcp_worker(const WorkerSettings& settings, const Security& security);

// Offers `object` until a learner that took it has said goodbye, on the calling thread (as_remote.h).
void serve_object(const ClassInfo& info, void* object, const std::string& address, std::chrono::nanoseconds patience);

}  // namespace parl::internal
