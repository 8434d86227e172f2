#include "parl/remote/internal/context.h"

#include <pthread.h>
#include <sched.h>

#include <filesystem>
#include <mutex>
#include <system_error>

#include "parl/core/log.h"

namespace parl {
namespace internal {
namespace {

thread_local ObjectThread* current_object = nullptr;

struct Hooks {
  std::mutex mutex;
  std::vector<std::function<void()>> list;
};
Hooks& hooks() {
  static Hooks* all = new Hooks;
  return *all;
}

// Who waits for whom changes under this lock only; taken when a remote object calls another one.
std::mutex& wait_graph() {
  static std::mutex* mutex = new std::mutex;
  return *mutex;
}

std::string step(const ObjectChannel& object, const char* method) {
  return object.label() + "." + (method ? method : "(constructor or destructor)");
}

}  // namespace

ObjectThread::ObjectThread(const Placement& placement, ObjectChannel* channel)
    : placement_(placement), channel_(channel), before_(current_object) {
  current_object = this;
}

ObjectThread::~ObjectThread() { current_object = before_; }

ObjectThread* ObjectThread::current() { return current_object; }

const Placement& ObjectThread::placement() {
  if (!has_directory_ && !placement_.directory.empty()) {
    std::error_code error;
    std::filesystem::create_directories(placement_.directory, error);
    PARL_CHECK(!error, "cannot make the directory '{}' of {}: {}", placement_.directory, placement_.name,
               error.message());
    has_directory_ = true;
  }
  return placement_;
}

void run_object_thread_hooks() {
  std::vector<std::function<void()>> list;
  {
    std::lock_guard lock(hooks().mutex);
    list = hooks().list;
  }
  for (const auto& hook : list) hook();
}

void pin_to_cores(const Placement& placement) {
  if (placement.cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : placement.cores) {
    PARL_CHECK(core >= 0 && core < CPU_SETSIZE, "{}: there is no processor {}", placement.name, core);
    CPU_SET(core, &set);
  }
  PARL_CHECK(sched_setaffinity(0, sizeof(set), &set) == 0, "{}: this machine lets it run on none of the processors {}",
             placement.name, fmt::join(placement.cores, ", "));
}

WaitEdge::WaitEdge(ObjectChannel* target, const char* method) {
  ObjectThread* here = ObjectThread::current();
  if (!here || !here->channel()) return;
  ObjectChannel* self = here->channel();
  std::lock_guard lock(wait_graph());
  std::string chain;
  for (ObjectChannel* c = target; c; c = c->waiting_for.load()) {
    chain += step(*c, c->running.load()) + " -> ";
    if (c != self) continue;
    chain += step(*target, method);
    throw_remote(RemoteErrorKind::kRefused, "this call would wait for itself: " + chain +
                                                "; use async() and do not wait for it inside the method");
  }
  waiter_ = self;
  before_ = self->waiting_for.exchange(target);
}

WaitEdge::~WaitEdge() {
  if (!waiter_) return;
  std::lock_guard lock(wait_graph());
  waiter_->waiting_for.store(before_);
}

namespace {
std::atomic<int64_t> forks{0};
}

int64_t fork_generation() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  (void)registered;
  return forks.load(std::memory_order_relaxed);
}

bool in_forked_child(int64_t creator_generation) { return forks.load(std::memory_order_relaxed) != creator_generation; }

}  // namespace internal

const Placement& placement() {
  internal::ObjectThread* object = internal::ObjectThread::current();
  PARL_CHECK(object,
             "placement() belongs inside a remote object's constructor or methods; no object runs on this thread");
  return object->placement();
}

bool stop_requested() {
  internal::ObjectThread* object = internal::ObjectThread::current();
  return object && object->stop_requested();
}

bool on_remote_object() { return internal::ObjectThread::current() != nullptr; }

bool on_object_thread(std::function<void()> hook) {
  std::lock_guard lock(internal::hooks().mutex);
  internal::hooks().list.push_back(std::move(hook));
  return true;
}

}  // namespace parl
