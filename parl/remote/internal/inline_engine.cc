#include "parl/remote/internal/inline_engine.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "parl/core/log.h"
#include "parl/remote/internal/call_list.h"
#include "parl/remote/internal/context.h"

namespace parl::internal {
namespace {

class InlineChannel;

class InlineContext : public ObjectThread {
 public:
  InlineContext(const Placement& placement, InlineChannel* channel);
  bool stop_requested() override;

 private:
  InlineChannel& owner_;
};

// Whoever submits becomes the runner unless somebody is: the runner runs what is queued until nothing is left.
class InlineChannel : public ObjectChannel {
 public:
  InlineChannel(const CreateRequest& request, std::shared_ptr<ManagerShared> shared)
      : ObjectChannel(request, std::move(shared), getpid()) {}

  void construct(ConstructorCall& constructor) {
    try {
      InlineContext context(placement(), this);
      object_ = constructor.construct();
    } catch (...) {
      RemoteFailure failure = describe_current_exception();
      failure.class_name = info().name;
      failure.object = label();
      failure.method = "(constructor)";
      failure.host = host();
      failure.pid = pid();
      end_slot();
      throw RemoteError(std::move(failure));
    }
  }

  bool submit(CallRef call, TimePoint deadline) override {
    {
      std::unique_lock lock(mutex_);
      if (is_draining_) {
        lock.unlock();
        call->fail(make_failure(RemoteErrorKind::kClosed, label() + " is closed"));
        return true;
      }
      if (is_busy_ && count_ >= shared()->options.max_calls) {
        if (deadline == kNoWait) return false;
        const WaitEdge edge(this, call->method().name);
        const auto has_room = [&] { return !is_busy_ || count_ < shared()->options.max_calls || is_draining_; };
        if (deadline == kForever) {
          news_.wait(lock, has_room);
        } else if (!news_.wait_until(lock, deadline, has_room)) {
          return false;
        }
      }
      ++stats().calls;
      ++count_;
      const char* method = call->method().name;
      queue_.push(std::move(call));
      if (is_busy_) return true;  // the runner takes it
      is_busy_ = true;
      lock.unlock();
      const WaitEdge edge(this, method);
      run_all();
    }
    return true;
  }

  void goodbye() noexcept override {
    {
      std::lock_guard lock(mutex_);
      is_draining_ = true;
      if (is_busy_ || is_gone_) return;  // the runner destroys it
      is_busy_ = true;
    }
    run_all();
  }

  bool wait_gone(TimePoint deadline) override {
    std::unique_lock lock(mutex_);
    const auto is_gone = [&] { return is_gone_; };
    if (deadline == kForever) return news_.wait(lock, is_gone), true;
    return news_.wait_until(lock, deadline, is_gone);
  }

  bool lost() const override { return false; }

  void close_now() {
    CallList pending;
    CallRef current;
    {
      std::lock_guard lock(mutex_);
      is_closing_ = true;
      pending.swap(queue_);
      count_ = 0;
      current = current_;
    }
    const auto closed = [&] {
      return make_failure(RemoteErrorKind::kClosed, "the manager of " + label() + " has ended");
    };
    while (CallRef call = pending.pop()) call->fail(closed());
    if (current) {
      current->give_up();
      current->fail(closed());
    }
    goodbye();
  }
  bool gone() {
    std::lock_guard lock(mutex_);
    return is_gone_;
  }
  bool stopping() { return is_closing_.load(std::memory_order_relaxed) || (current_ && current_->given_up()); }

 private:
  void run_all() noexcept {
    InlineContext context(placement(), this);
    std::unique_lock lock(mutex_);
    while (CallRef call = queue_.pop()) {
      --count_;
      current_ = call;
      lock.unlock();
      news_.notify_all();
      if (!call->given_up()) {
        running.store(call->method().name);
        call->run(object_);
        running.store(nullptr);
      }
      lock.lock();
      current_ = CallRef();
    }
    if (is_draining_ && !is_gone_) {
      lock.unlock();
      destroy();
      end_slot();
      lock.lock();
      is_gone_ = true;
    }
    is_busy_ = false;
    news_.notify_all();
  }

  void destroy() noexcept {
    try {
      info().destroy(object_);
    } catch (...) {
      log().error("the destructor of {} threw {}", label(), RemoteError(describe_current_exception()).what());
    }
  }

  void* object_ = nullptr;
  std::mutex mutex_;
  std::condition_variable news_;
  CallList queue_;
  size_t count_ = 0;
  CallRef current_;
  bool is_busy_ = false, is_draining_ = false, is_gone_ = false;
  std::atomic<bool> is_closing_{false};
};

InlineContext::InlineContext(const Placement& placement, InlineChannel* channel)
    : ObjectThread(placement, channel), owner_(*channel) {}
bool InlineContext::stop_requested() { return owner_.stopping(); }

class InlineEngine : public Engine {
 public:
  explicit InlineEngine(std::shared_ptr<ManagerShared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<ObjectChannel> create(CreateRequest request) override {
    run_hooks_once();
    auto channel = std::make_shared<InlineChannel>(request, shared_);
    channel->construct(*request.constructor);
    std::lock_guard lock(mutex_);
    std::erase_if(channels_, [](const auto& c) { return c->gone(); });
    channels_.push_back(channel);
    return channel;
  }

  void shutdown(TimePoint deadline) override {
    std::vector<std::shared_ptr<InlineChannel>> all;
    {
      std::lock_guard lock(mutex_);
      all.swap(channels_);
    }
    for (const auto& channel : all) channel->close_now();
    for (const auto& channel : all) {
      if (channel->wait_gone(deadline)) continue;
      const char* method = channel->running.load();
      log().error("{} is still in {} after the time for shutdown; its object is not destroyed", channel->label(),
                  method ? std::string("the method ") + method : "its constructor or destructor");
    }
  }

 private:
  // The caller's thread is the object's thread: the hooks run on it once, not before every object.
  void run_hooks_once() {
    thread_local bool done = false;
    if (std::exchange(done, true)) return;
    run_object_thread_hooks();
  }

  std::shared_ptr<ManagerShared> shared_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<InlineChannel>> channels_;
};

}  // namespace

std::unique_ptr<Engine> make_inline_engine(std::shared_ptr<ManagerShared> shared) {
  return std::make_unique<InlineEngine>(std::move(shared));
}

}  // namespace parl::internal
