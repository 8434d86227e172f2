#include "parl/remote/internal/manager_core.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "parl/core/log.h"
#include "parl/remote/engine_name.h"
#include "parl/remote/internal/context.h"
#include "parl/remote/internal/inline_engine.h"
#include "parl/remote/internal/metrics_server.h"
#include "parl/remote/internal/process_engine.h"
#include "parl/remote/internal/status.h"
#include "parl/remote/internal/tcp_engine.h"
#include "parl/remote/internal/thread_engine.h"

namespace parl::internal {
namespace {

constexpr int kStartsAtOnce = 8;

std::unique_ptr<Engine> make_engine(const std::shared_ptr<ManagerShared>& shared) {
  const std::string& name = shared->options.engine;
  if (name == "inline") return make_inline_engine(shared);
  if (name == "thread") return make_thread_engine(shared);
  if (name == "process") return make_process_engine(shared);
  if (is_tcp_engine(name)) return make_tcp_engine(shared);
  check_engine_name(name);
  raise("the engine '{}' is not built in", name);
}

RemoteFailure child_failure() {
  return make_failure(RemoteErrorKind::kClosed,
                      "this process was forked from the one that made the object; handles do nothing here");
}

}  // namespace

void wait_for_call(Call& call) {
  if (call.ready()) return;
  ObjectChannel* channel = call.channel();
  if (!channel) {
    call.wait_ready(kForever);
    return;
  }
  const WaitEdge edge(channel, call.method().name);
  channel->wait(call, kForever);
}

// ---- RemoteObject ----

RemoteObject::RemoteObject(std::shared_ptr<ManagerCore> manager, CreateRequest request)
    : manager_(std::move(manager)),
      request_(std::move(request)),
      fork_generation_(internal::fork_generation()),
      max_restarts_(request_.place.max_restarts) {
  channel_ = manager_->build(request_);
  request_.slot.reset();  // the channel has it
  if (max_restarts_ == 0) request_.constructor.reset();
}

RemoteObject::~RemoteObject() {
  if (in_forked_child(fork_generation_)) {
    new std::shared_ptr<ObjectChannel>(std::move(channel_));  // its locks may be held by threads that are not here
    new std::shared_ptr<ManagerCore>(std::move(manager_));
    return;
  }
  goodbye();
}

std::shared_ptr<ObjectChannel> RemoteObject::channel() {
  std::lock_guard lock(mutex_);
  return channel_;
}

int RemoteObject::generation() {
  std::lock_guard lock(mutex_);
  return generation_;
}

bool RemoteObject::lost() { return channel()->lost(); }

void RemoteObject::set_on_restart(std::function<void()> hook) {
  std::lock_guard lock(mutex_);
  on_restart_ = std::move(hook);
}

std::shared_ptr<ObjectChannel> RemoteObject::live_channel() {
  if (max_restarts_ == 0) return channel_;  // never changes
  std::lock_guard one_builder(restart_);
  std::shared_ptr<ObjectChannel> current = channel();
  if (is_in_hook_ || !current->lost()) return current;
  {
    std::lock_guard lock(mutex_);
    if (is_closed_ || generation_ >= max_restarts_) return current;  // its submit says why
  }
  current.reset();
  CreateRequest request = request_;
  request.placement.generation = generation_ + 1;
  request.deadline = deadline_in(request.place.timeout.value_or(manager_->options().create_timeout));
  std::shared_ptr<ObjectChannel> fresh = manager_->build(std::move(request));
  std::function<void()> hook;
  {
    std::lock_guard lock(mutex_);
    channel_ = fresh;
    ++generation_;
    hook = on_restart_;
  }
  ++manager_->counters().restarts;
  log().warn("{} was lost and is built again ({} of {})", fresh->label(), generation_, max_restarts_);
  if (hook) {
    is_in_hook_ = true;
    try {
      hook();
    } catch (...) {
      is_in_hook_ = false;
      throw;
    }
    is_in_hook_ = false;
  }
  return channel();
}

bool RemoteObject::submit(const CallRef& call, TimePoint deadline) {
  if (in_forked_child(fork_generation_)) throw RemoteError(child_failure());
  std::shared_ptr<ObjectChannel> channel = live_channel();
  ObjectChannel* where = channel.get();
  call->set_channel(std::move(channel));
  return where->submit(call, deadline);
}

void RemoteObject::call_and_wait(const CallRef& call, TimePoint deadline) {
  if (in_forked_child(fork_generation_)) throw RemoteError(child_failure());
  std::shared_ptr<ObjectChannel> channel = live_channel();
  ObjectChannel* where = channel.get();
  call->set_channel(std::move(channel));
  const WaitEdge edge(where, call->method().name);
  if (where->submit(call, deadline) && where->wait(*call, deadline)) return;
  call->give_up();
  call->fail(
      make_failure(RemoteErrorKind::kTimeout, "the call has not ended by its deadline; its result will be dropped"));
  where->given_up(*call);
}

void RemoteObject::goodbye() noexcept {
  std::shared_ptr<ObjectChannel> channel;
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
    channel = channel_;
  }
  if (channel) channel->goodbye();
}

bool RemoteObject::close(std::chrono::nanoseconds timeout) {
  if (in_forked_child(fork_generation_)) return true;
  goodbye();
  return channel()->wait_gone(deadline_in(timeout));
}

// ---- ManagerCore ----

ManagerCore::ManagerCore(Options explicit_options) : fork_generation_(internal::fork_generation()) {
  shared_->options = resolve(std::move(explicit_options));
  choose_directory();
  shared_->slots = std::make_shared<SlotBook>(shared_->options.slots);
  shared_->gpus = find_gpus(shared_->options.gpus);
  engine_ = make_engine(shared_);
  if (!options().metrics.empty())
    metrics_ = std::make_unique<MetricsServer>(options().metrics, options().insecure,
                                               [this] { return to_prometheus(status()); });
  if (metrics_) shared_->options.metrics = metrics_->address();
}

ManagerCore::~ManagerCore() {
  if (engine_) shutdown(options().shutdown_timeout);
}

bool ManagerCore::in_child() const { return in_forked_child(fork_generation_); }

void ManagerCore::choose_directory() {
  std::string& directory = shared_->options.directory;
  std::error_code error;
  if (!directory.empty()) {
    directory = std::filesystem::absolute(directory, error).string();
    std::filesystem::create_directories(directory, error);
    PARL_CHECK(!error, "cannot make the directory '{}' (--parl-dir): {}", directory, error.message());
    return;
  }
  std::string pattern = (std::filesystem::temp_directory_path(error) / "parl-XXXXXX").string();
  PARL_CHECK(mkdtemp(pattern.data()), "cannot make a directory under '{}': {}; set TMPDIR or --parl-dir", pattern,
             std::generic_category().message(errno));
  directory = pattern;
  owns_directory_ = true;
}

CreateRequest ManagerCore::make_request(const ClassInfo& info, Place place, int index) {
  if (in_child()) throw RemoteError(child_failure());
  if (on_remote_object()) {
    throw_remote(RemoteErrorKind::kRefused,
                 fmt::format("creating a {} inside a remote object's method is refused: create objects "
                             "in the program that owns the manager",
                             info.name));
  }
  CreateRequest request;
  request.info = &info;
  request.placement.index = index;
  request.placement.name = place.name.empty() ? fmt::format("{}#{}", info.name, index) : place.name;
  request.placement.engine = options().engine;
  request.placement.cores = place.cores;
  std::string folder = fmt::format("{}-{}", index, request.placement.name);
  std::replace_if(
      folder.begin(), folder.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.'; }, '_');
  request.placement.directory = options().directory + "/" + folder;
  request.deadline = deadline_in(place.timeout.value_or(options().create_timeout));
  request.place = std::move(place);
  return request;
}

std::shared_ptr<RemoteObject> ManagerCore::create(const ClassInfo& info, std::shared_ptr<ConstructorCall> constructor,
                                                  Place place, int index) {
  CreateRequest request = make_request(info, std::move(place), index);
  request.constructor = std::move(constructor);
  return std::make_shared<RemoteObject>(shared_from_this(), std::move(request));
}

std::shared_ptr<RemoteObject> ManagerCore::take(const ClassInfo& info, Place place, int index) {
  CreateRequest request = make_request(info, std::move(place), index);
  request.is_taken = true;
  return std::make_shared<RemoteObject>(shared_from_this(), std::move(request));
}

std::shared_ptr<ObjectChannel> ManagerCore::build(CreateRequest request) {
  if (is_shut_) throw_remote(RemoteErrorKind::kClosed, "the manager has ended; no object can be created");
  if (!request.slot) request.slot = shared_->slots->acquire(request.deadline);
  if (!engine_->hands_out_gpus()) assign_gpus(request);
  std::shared_ptr<ObjectChannel> channel =
      request.is_taken ? engine_->take(std::move(request)) : engine_->create(std::move(request));
  ++shared_->stats.objects_created;
  return channel;
}

void ManagerCore::assign_gpus(CreateRequest& request) {
  const GpuWish wish(request.place);
  if (wish.is_empty()) return;
  GpuBook::Lease lease = shared_->gpu_book->take(this_host(), shared_->gpus.ids, wish, request.deadline);
  request.placement.gpus = lease.ids;
  request.placement.devices = shared_->gpus.devices_of(lease.ids);
  struct Hold {
    std::shared_ptr<void> slot, gpus;
  };
  request.slot = std::make_shared<Hold>(Hold{std::move(request.slot), std::move(lease.hold)});
}

ManagerStatus ManagerCore::status() { return describe_manager(*engine_, *shared_); }

void ManagerCore::overlap(int n, const std::function<void(int)>& build) {
  std::vector<std::exception_ptr> failures(static_cast<size_t>(n));
  std::atomic<int> next{0};
  const auto work = [&] {
    for (int i = next++; i < n; i = next++) {
      try {
        build(i);
      } catch (...) {
        failures[static_cast<size_t>(i)] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> helpers;
  const bool is_inline = options().engine == "inline";  // objects belong to the caller's thread
  try {
    for (int i = 1; i < std::min(n, kStartsAtOnce) && !is_inline; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: those that are there do it all
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void ManagerCore::shutdown(std::chrono::nanoseconds timeout) {
  if (is_shut_.exchange(true)) return;
  metrics_.reset();
  shared_->slots->close();
  shared_->gpu_book->close();
  engine_->shutdown(deadline_in(timeout));
  if (!owns_directory_) return;
  std::error_code ignored;
  std::filesystem::remove_all(options().directory, ignored);
}

}  // namespace parl::internal
