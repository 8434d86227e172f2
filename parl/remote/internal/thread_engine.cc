#include "parl/remote/internal/thread_engine.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "parl/core/log.h"
#include "parl/remote/internal/call_list.h"
#include "parl/remote/internal/context.h"
#include "parl/wire/array_pool.h"

namespace parl::internal {
namespace {

// An object that shutdown gave up on: kept reachable, so that leak checkers know it is on purpose.
void leak(void* object) {
  static std::mutex* mutex = new std::mutex;
  static auto* objects = new std::vector<void*>;
  std::lock_guard lock(*mutex);
  objects->push_back(object);
}

class ThreadChannel;

class ThreadContext : public ObjectThread {
 public:
  ThreadContext(const Placement& placement, ThreadChannel* channel);
  bool stop_requested() override;

 private:
  ThreadChannel& owner_;
};

// Life: starting -> (failed | open) -> draining (goodbye) -> gone.
class ThreadChannel : public ObjectChannel {
 public:
  ThreadChannel(CreateRequest request, std::shared_ptr<ManagerShared> shared)
      : ObjectChannel(request, std::move(shared), getpid()), constructor_(std::move(request.constructor)) {}

  void start() {
    auto self = std::static_pointer_cast<ThreadChannel>(shared_from_this());
    thread_ = std::thread([self] { self->serve(); });
  }

  // Waits for the constructor; throws what it threw.
  void wait_constructed(TimePoint deadline) {
    std::unique_lock lock(mutex_);
    const auto is_done = [&] { return constructed_ || construction_failure_; };
    if (deadline == kForever) {
      news_.wait(lock, is_done);
    } else if (!news_.wait_until(lock, deadline, is_done)) {
      is_draining_ = is_closing_ = true;  // stop_requested() tells the constructor
      lock.unlock();
      throw_remote(RemoteErrorKind::kTimeout,
                   fmt::format("the constructor of {} has not returned by the deadline; give "
                               "Place::timeout more, or do the work in a method",
                               label()));
    }
    if (construction_failure_) throw RemoteError(*construction_failure_);
  }

  bool submit(CallRef call, TimePoint deadline) override {
    std::unique_lock lock(mutex_);
    const size_t bytes = call->argument_bytes();
    const auto has_room = [&] {
      return is_draining_ || count_ == 0 ||
             (count_ < shared()->options.max_calls && bytes_ + bytes <= shared()->options.max_bytes);
    };
    if (!has_room()) {
      if (deadline == kNoWait) return false;
      const WaitEdge edge(this, call->method().name);
      ++waiting_for_room_;
      const bool got_room =
          deadline == kForever ? (room_.wait(lock, has_room), true) : room_.wait_until(lock, deadline, has_room);
      --waiting_for_room_;
      if (!got_room) return false;
    }
    if (is_draining_) {
      lock.unlock();
      call->fail(make_failure(RemoteErrorKind::kClosed, label() + " is closed"));
      return true;
    }
    ++stats().calls;
    ++count_;
    bytes_ += bytes;
    const bool must_wake = is_idle_;
    queue_.push(std::move(call));
    lock.unlock();
    if (must_wake) work_.notify_one();
    return true;
  }

  void goodbye() noexcept override {
    {
      std::lock_guard lock(mutex_);
      is_draining_ = true;
    }
    work_.notify_one();
    room_.notify_all();
  }

  bool wait_gone(TimePoint deadline) override {
    std::unique_lock lock(mutex_);
    const auto is_gone = [&] { return gone_; };
    if (deadline == kForever) return news_.wait(lock, is_gone), true;
    return news_.wait_until(lock, deadline, is_gone);
  }

  bool lost() const override { return false; }

  // The manager's end: every pending call fails, the object goes when its thread comes back.
  void close_now() {
    CallList pending;
    CallRef current;
    {
      std::lock_guard lock(mutex_);
      is_draining_ = true;
      pending.swap(queue_);
      count_ = bytes_ = 0;
      current = current_;
    }
    work_.notify_one();
    room_.notify_all();
    while (CallRef call = pending.pop()) call->fail(closed());
    // Only then the request to stop: a method that sees it may return at once, and its caller is told `closed`.
    if (current) {
      current->fail(closed());
      current->give_up();
    }
    is_closing_ = true;
  }

  // Ends the thread's bond to this object: true when it has ended; false: it is left in user code, its object leaks.
  bool join_or_leave() {
    {
      std::lock_guard lock(mutex_);
      is_abandoned_ = !gone_;
      if (is_abandoned_) {
        thread_.detach();
        return false;
      }
    }
    join();
    return true;
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  bool gone() {
    std::lock_guard lock(mutex_);
    return gone_;
  }
  bool stopping() {
    return is_closing_.load(std::memory_order_relaxed) || (running_call_ && running_call_->given_up());
  }

 private:
  RemoteFailure closed() const {
    return make_failure(RemoteErrorKind::kClosed, "the manager of " + label() + " has ended");
  }

  void serve() {
    ArrayPool pool(shared()->options.slab_bytes);
    {
      const ArrayAllocatorScope scope(&pool);
      ThreadContext context(placement(), this);
      void* object = construct();
      if (object) {
        while (CallRef call = next()) run(object, std::move(call));
        left_in_user_code() ? leak(object) : destroy(object);
      }
    }
    end_slot();
    std::lock_guard lock(mutex_);
    gone_ = true;
    news_.notify_all();
  }

  void* construct() {
    void* object = nullptr;
    std::unique_ptr<RemoteFailure> failure;
    try {
      pin_to_cores(placement());
      run_object_thread_hooks();
      object = constructor_->construct();
    } catch (...) {
      failure = std::make_unique<RemoteFailure>(describe_current_exception());
      failure->class_name = info().name;
      failure->object = label();
      failure->method = "(constructor)";
      failure->host = host();
      failure->pid = pid();
      end_slot();  // free before create() throws
    }
    constructor_.reset();
    std::lock_guard lock(mutex_);
    construction_failure_ = std::move(failure);
    constructed_ = object != nullptr;
    news_.notify_all();
    return object;
  }

  // Empty: goodbye, and nothing is left to do.
  CallRef next() {
    std::unique_lock lock(mutex_);
    while (queue_.empty() && !is_draining_) {
      is_idle_ = true;
      work_.wait(lock);
      is_idle_ = false;
    }
    CallRef call = queue_.pop();
    if (!call) return call;
    --count_;
    bytes_ -= call->argument_bytes();
    current_ = call;
    const bool must_wake = waiting_for_room_ > 0;
    lock.unlock();
    if (must_wake) room_.notify_all();
    return call;
  }

  void run(void* object, CallRef call) {
    if (!call->given_up()) {
      running.store(call->method().name, std::memory_order_relaxed);
      running_call_ = call.get();
      call->run(object);
      running_call_ = nullptr;
      running.store(nullptr, std::memory_order_relaxed);
    }
    std::lock_guard lock(mutex_);
    current_ = CallRef();
  }

  void destroy(void* object) noexcept {
    try {
      info().destroy(object);
    } catch (...) {
      log().error("the destructor of {} threw {}", label(), RemoteError(describe_current_exception()).what());
    }
  }
  bool left_in_user_code() {
    std::lock_guard lock(mutex_);
    return is_abandoned_;
  }

  std::shared_ptr<ConstructorCall> constructor_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable work_, room_, news_;
  CallList queue_;
  size_t count_ = 0, bytes_ = 0, waiting_for_room_ = 0;
  CallRef current_;               // under the mutex: for close_now()
  Call* running_call_ = nullptr;  // the object's thread only
  bool is_idle_ = false, is_draining_ = false, constructed_ = false, gone_ = false, is_abandoned_ = false;
  std::atomic<bool> is_closing_{false};
  std::unique_ptr<RemoteFailure> construction_failure_;
};

ThreadContext::ThreadContext(const Placement& placement, ThreadChannel* channel)
    : ObjectThread(placement, channel), owner_(*channel) {}
bool ThreadContext::stop_requested() { return owner_.stopping(); }

class ThreadEngine : public Engine {
 public:
  explicit ThreadEngine(std::shared_ptr<ManagerShared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<ObjectChannel> create(CreateRequest request) override {
    join_ended();
    const TimePoint deadline = request.deadline;
    auto channel = std::make_shared<ThreadChannel>(std::move(request), shared_);
    {
      std::lock_guard lock(mutex_);
      if (is_shut_) throw_remote(RemoteErrorKind::kClosed, "the manager has ended; no object can be created");
      channels_.push_back(channel);
      try {
        channel->start();
      } catch (const std::system_error& error) {
        channels_.pop_back();
        throw_remote(RemoteErrorKind::kRefused, fmt::format("no thread for {}: {} ({} objects live in this process)",
                                                            channel->label(), error.what(), channels_.size()));
      }
    }
    try {
      channel->wait_constructed(deadline);
    } catch (...) {
      channel->goodbye();
      throw;
    }
    return channel;
  }

  void shutdown(TimePoint deadline) override {
    std::vector<std::shared_ptr<ThreadChannel>> all;
    {
      std::lock_guard lock(mutex_);
      is_shut_ = true;
      all.swap(channels_);
    }
    for (const auto& channel : all) channel->close_now();
    for (const auto& channel : all) {
      channel->wait_gone(deadline);
      if (channel->join_or_leave()) continue;
      const char* method = channel->running.load();
      log().error(
          "{} is still in {} after the time for shutdown; its thread is left alone and its object is not destroyed. "
          "Let long methods poll parl::stop_requested()",
          channel->label(), method ? std::string("the method ") + method : "its constructor or destructor");
    }
  }

 private:
  // Threads of objects that are gone.
  void join_ended() {
    std::vector<std::shared_ptr<ThreadChannel>> ended;
    {
      std::lock_guard lock(mutex_);
      const auto middle = std::partition(channels_.begin(), channels_.end(), [](const auto& c) { return !c->gone(); });
      ended.assign(middle, channels_.end());
      channels_.erase(middle, channels_.end());
    }
    for (const auto& channel : ended) channel->join();
  }

  std::shared_ptr<ManagerShared> shared_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<ThreadChannel>> channels_;
  bool is_shut_ = false;
};

}  // namespace

std::unique_ptr<Engine> make_thread_engine(std::shared_ptr<ManagerShared> shared) {
  return std::make_unique<ThreadEngine>(std::move(shared));
}

}  // namespace parl::internal
