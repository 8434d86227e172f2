#include "parl/remote/internal/call.h"

#include <algorithm>

#include "parl/core/log.h"
#include "parl/remote/internal/engine.h"

namespace parl::internal {

TimePoint deadline_in(std::chrono::nanoseconds timeout) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (timeout >= kForever - now) return kForever;
  return now + std::max(timeout, std::chrono::nanoseconds(0));
}

Call::~Call() = default;

template <typename Fill>
bool Call::finish(Fill&& fill) noexcept {
  std::vector<std::pair<uint64_t, std::function<void()>>> listeners;
  bool must_log = false;
  {
    std::lock_guard lock(mutex_);
    if (ready_.load(std::memory_order_relaxed)) return false;
    fill();
    listeners.swap(listeners_);
    must_log = detached_ && failure_;
    ready_.store(true, std::memory_order_release);
  }
  condition_.notify_all();
  for (const auto& [number, listener] : listeners) listener();
  if (must_log) log_unfetched();
  return true;
}

bool Call::complete(ReceivedMessage message) noexcept {
  const bool was_first = finish([&] { message_ = std::move(message); });
  if (!was_first && channel_) ++channel_->stats().late_results;
  return was_first;
}

bool Call::complete_local() noexcept {
  const bool was_first = finish([] {});
  if (!was_first && channel_) ++channel_->stats().late_results;
  return was_first;
}

bool Call::fail(RemoteFailure failure) noexcept {
  if (channel_) {
    if (failure.class_name.empty()) failure.class_name = channel_->info().name;
    if (failure.object.empty()) failure.object = channel_->label();
    if (failure.host.empty()) failure.host = channel_->host();
    if (failure.pid == 0) failure.pid = channel_->pid();
  }
  if (failure.method.empty() && method_) failure.method = method_->name;
  failure.path.insert(failure.path.begin(), failure.object + "." + failure.method);
  const bool was_first = finish([&] { failure_ = std::make_unique<RemoteFailure>(std::move(failure)); });
  if (was_first && channel_) ++channel_->stats().errors;
  return was_first;
}

bool Call::wait_ready(TimePoint deadline) {
  if (ready()) return true;
  if (deadline == kNoWait) return false;
  std::unique_lock lock(mutex_);
  const auto is_ready = [&] { return ready_.load(std::memory_order_relaxed); };
  if (deadline == kForever) {
    condition_.wait(lock, is_ready);
    return true;
  }
  return condition_.wait_until(lock, deadline, is_ready);
}

uint64_t Call::add_listener(std::function<void()> f) {
  {
    std::lock_guard lock(mutex_);
    if (!ready_.load(std::memory_order_relaxed)) {
      listeners_.emplace_back(++last_listener_, std::move(f));
      return last_listener_;
    }
  }
  f();
  return 0;
}

void Call::remove_listener(uint64_t number) {
  std::lock_guard lock(mutex_);
  std::erase_if(listeners_, [&](const auto& entry) { return entry.first == number; });
}

void Call::settle() {
  if (message_) {
    ReceivedMessage message = std::move(*message_);
    message_.reset();
    try {
      try {
        Reader reader = message.reader();
        decode(reader);
        reader.finish();
      } catch (...) {
        rethrow_as_coding("the result");
      }
    } catch (...) {
      ready_.store(false, std::memory_order_relaxed);  // nobody else looks: get() is one caller's
      fail(describe_current_exception());
    }
  }
  if (failure_) {
    fetched_ = true;
    throw RemoteError(*failure_);
  }
}

void Call::detach() noexcept {
  {
    std::lock_guard lock(mutex_);
    detached_ = true;
    if (!ready_.load(std::memory_order_relaxed) || !failure_ || fetched_) return;
  }
  log_unfetched();
}

void Call::log_unfetched() noexcept {
  const bool is_goodbye = failure_->kind == RemoteErrorKind::kClosed || failure_->kind == RemoteErrorKind::kCancelled;
  if (is_goodbye) return;  // asked for
  try {
    log().warn("an error that nobody fetched: {}", RemoteError(*failure_).what());
  } catch (...) {
  }
}

}  // namespace parl::internal
