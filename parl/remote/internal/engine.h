// The seam between handles and engines. An engine builds objects somewhere and gives an ObjectChannel for each; handles
// push Calls into it. Engines: inline_engine.h, thread_engine.h, process_engine.h, tcp_engine.h.
//
// What every channel must do:
//   - calls of one channel run in the order in which submit() took them, one at a time;
//   - a call that submit() took is completed or failed exactly once, also when the peer dies, or the engine ends;
//   - goodbye(): the accepted calls still run, then the object is destroyed, then end_slot() is called within 50 ms;
//   - an exception from a method fails that call alone; the object lives on;
//   - constructor, methods and destructor run on one and the same thread, inside an ObjectThread (context.h);
//   - nothing user-written runs on I/O threads: results are completed undecoded.
// Thread rule: all of ObjectChannel and Engine from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "parl/remote/internal/call.h"
#include "parl/remote/internal/class_info.h"
#include "parl/remote/internal/gpus.h"
#include "parl/remote/internal/slot_book.h"
#include "parl/remote/options.h"
#include "parl/remote/place.h"
#include "parl/remote/stats.h"
#include "parl/remote/status.h"

namespace parl::internal {

// What a manager shares with its engine and channels; outlives both.
struct ManagerShared {
  Options options;  // resolved
  StatCounters stats;
  std::shared_ptr<SlotBook> slots;
  Gpus gpus;  // that this program may hand out; tcp: workers have theirs
  const std::shared_ptr<GpuBook> gpu_book = std::make_shared<GpuBook>();
  const TimePoint since = std::chrono::steady_clock::now();
};

// A constructor call: which one, with which arguments. Kept for re-creation where max_restarts > 0.
class ConstructorCall {
 public:
  virtual ~ConstructorCall() = default;
  virtual const ConstructorInfo& constructor() const = 0;
  // Builds the object here; the arguments are moved from. Once. Throws what the constructor throws.
  virtual void* construct() = 0;
  virtual void encode(Writer& writer) const = 0;
};

struct CreateRequest {
  const ClassInfo* info = nullptr;
  std::shared_ptr<ConstructorCall> constructor;  // null when is_taken
  Place place;
  Placement placement;  // complete but for the directory's existence
  TimePoint deadline = kForever;
  bool is_taken = false;       // the object exists already and is taken, not built
  std::shared_ptr<void> slot;  // with its GPUs; give it to the channel (ObjectChannel's constructor)
};

class ObjectChannel : public std::enable_shared_from_this<ObjectChannel> {
 public:
  ObjectChannel(const CreateRequest& request, std::shared_ptr<ManagerShared> shared, int64_t pid)
      : shared_(std::move(shared)),
        info_(request.info),
        placement_(request.placement),
        pid_(pid),
        slot_(request.slot) {}
  virtual ~ObjectChannel() = default;

  // Takes the call, waiting while the mailbox is at its bound (options.max_calls, max_bytes), until `deadline`
  // (kNoWait: do not wait). False: not taken. On a closed or lost channel the call is taken and failed.
  // Call::set_channel was done by the caller.
  virtual bool submit(CallRef call, TimePoint deadline) = 0;
  // Waits for a call of this channel; may drive I/O on the waiting thread. Returns call.ready().
  virtual bool wait(Call& call, TimePoint deadline) { return call.wait_ready(deadline); }
  // The call was given up (Call::given_up() is set, its future already failed).
  virtual void given_up(Call& call) noexcept { (void)call; }
  // No more calls; destroys the object after those accepted. Returns at once. Once or more.
  virtual void goodbye() noexcept = 0;
  // Waits until the object is gone (after goodbye, or loss). False: not by `deadline`.
  virtual bool wait_gone(TimePoint deadline) = 0;
  // The object's process or connection ended without goodbye.
  virtual bool lost() const = 0;

  const ClassInfo& info() const { return *info_; }
  const Placement& placement() const { return placement_; }
  const std::string& label() const { return placement_.name; }  // "Greeter#3"
  int64_t pid() const { return pid_; }
  virtual const std::string& host() const { return this_host(); }
  const std::shared_ptr<ManagerShared>& shared() const { return shared_; }
  StatCounters& stats() const { return shared_->stats; }

  // For the deadlock check (context.h): the object that this one is waiting for, and the method it is in.
  std::atomic<ObjectChannel*> waiting_for{nullptr};
  std::atomic<const char*> running{nullptr};

 protected:
  void set_pid(int64_t pid) { pid_ = pid; }
  // The object is gone, its slot free.
  void end_slot() noexcept {
    std::shared_ptr<void> slot;
    std::lock_guard lock(slot_mutex_);
    slot.swap(slot_);
  }

 private:
  std::shared_ptr<ManagerShared> shared_;
  const ClassInfo* info_;
  Placement placement_;
  int64_t pid_;
  std::mutex slot_mutex_;
  std::shared_ptr<void> slot_;
};

class Engine {
 public:
  virtual ~Engine() = default;
  // Builds an object and returns when its constructor has. Throws RemoteError: `threw` (constructor), `timeout`
  // (request.deadline), `lost` (the process ended first; with status and last stderr lines), `refused`.
  virtual std::shared_ptr<ObjectChannel> create(CreateRequest request) = 0;
  // Takes an object that another program made and offers (as_remote); request.constructor is null. Throws as create().
  virtual std::shared_ptr<ObjectChannel> take(CreateRequest request) {
    throw_remote(
        RemoteErrorKind::kRefused,
        fmt::format("get_remote<{}>: objects dial in to a manager of tcp://host:port only", request.info->name));
  }
  // The counts, from those of the manager's bound and of the objects that live.
  virtual RemoteSlots slots(const RemoteSlots& book) { return book; }
  // True: create() hands out GPUs, of the machine that it chooses. False: request.placement has them already.
  virtual bool hands_out_gpus() const { return false; }
  // Adds what it knows of its workers. Does not wait for I/O.
  virtual void describe(ManagerStatus& status) { (void)status; }
  // Fails every pending call with `closed`, ends all objects, and returns when all are gone or `deadline` has passed;
  // then what still runs is killed (process) or leaked with an error that names it (thread). Once, before the
  // destructor.
  virtual void shutdown(TimePoint deadline) = 0;
};

}  // namespace parl::internal
