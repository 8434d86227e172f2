// What RemoteManager and Remote<T> are made of, without types.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "parl/remote/internal/engine.h"

namespace parl::internal {

class ManagerCore;
class MetricsServer;

// One object as its handle sees it: the channel of the present incarnation, and the policy that builds the next.
// Thread rule: any thread.
class RemoteObject {
 public:
  RemoteObject(std::shared_ptr<ManagerCore> manager, CreateRequest request);
  ~RemoteObject();  // goodbye; nothing in a forked child
  RemoteObject(const RemoteObject&) = delete;
  RemoteObject& operator=(const RemoteObject&) = delete;

  // Hands the call to the object, waiting at the bound until `deadline` (kNoWait: not). False: not taken.
  // A lost object is built again first, if its policy allows. Throws `refused` for a call that would wait for itself.
  bool submit(const CallRef& call, TimePoint deadline);
  // submit, and wait for the outcome; after `deadline` the call is given up and fails with `timeout`.
  void call_and_wait(const CallRef& call, TimePoint deadline);

  void goodbye() noexcept;
  // goodbye, and wait until the object is gone. False: not within `timeout`.
  bool close(std::chrono::nanoseconds timeout);

  std::shared_ptr<ObjectChannel> channel();
  int generation();
  bool lost();
  // Runs before the first call after a re-creation, on the calling thread.
  void set_on_restart(std::function<void()> hook);

 private:
  // The channel to use now; builds the object again if it was lost and may be.
  std::shared_ptr<ObjectChannel> live_channel();

  std::shared_ptr<ManagerCore> manager_;
  CreateRequest request_;
  const int64_t fork_generation_;
  const int max_restarts_;
  std::mutex mutex_;              // channel_, generation_, closed_, on_restart_
  std::recursive_mutex restart_;  // one builds, others wait; recursive: the hook calls the object
  std::shared_ptr<ObjectChannel> channel_;
  int generation_ = 0;
  bool is_closed_ = false, is_in_hook_ = false;
  std::function<void()> on_restart_;
};

class ManagerCore : public std::enable_shared_from_this<ManagerCore> {
 public:
  explicit ManagerCore(Options explicit_options);
  ~ManagerCore();

  // Reserves indices for `n` objects; the first.
  int reserve(int n) { return next_index_.fetch_add(n); }
  std::shared_ptr<RemoteObject> create(const ClassInfo& info, std::shared_ptr<ConstructorCall> constructor, Place place,
                                       int index);
  // An object that dialled in.
  std::shared_ptr<RemoteObject> take(const ClassInfo& info, Place place, int index);
  // Runs `build(0..n-1)`, several at once where the engine gains from it. Throws the first failure after all have
  // ended.
  void overlap(int n, const std::function<void(int)>& build);
  std::shared_ptr<ObjectChannel> build(CreateRequest request);
  void shutdown(std::chrono::nanoseconds timeout);
  bool forked() const { return in_child(); }

  RemoteSlots slots() { return engine_->slots(shared_->slots->read()); }
  ManagerStatus status();
  RemoteStats stats() const { return shared_->stats.read(); }
  const Options& options() const { return shared_->options; }
  StatCounters& counters() { return shared_->stats; }

 private:
  bool in_child() const;
  CreateRequest make_request(const ClassInfo& info, Place place, int index);
  void choose_directory();
  void assign_gpus(CreateRequest& request);

  std::shared_ptr<ManagerShared> shared_ = std::make_shared<ManagerShared>();
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<MetricsServer> metrics_;  // asks the engine
  std::atomic<int> next_index_{0};
  std::atomic<bool> is_shut_{false};
  const int64_t fork_generation_;
  bool owns_directory_ = false;
};

// Waits for a call as its channel does; a call of a remote object that would wait for itself throws `refused`.
void wait_for_call(Call& call);

}  // namespace parl::internal
