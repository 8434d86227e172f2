// Future<R>: the outcome of a call that goes on elsewhere.
//
// get() gives the value once, or throws RemoteError. get(timeout) throws RemoteError `timeout` when it is not there
// yet; the future stays usable. Dropping a future neither blocks nor cancels; an error that nobody fetched is logged
// once. Futures outlive the handle and the manager. Thread rule: move-only, one owner at a time; distinct futures from
// distinct threads.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "parl/remote/internal/typed_call.h"

namespace parl {

namespace internal {

void wait_for_call(Call& call);  // see manager_core.h
bool wait_for_call_until(Call& call, TimePoint deadline);
bool cancel_call(Call& call);
// The first of `calls` that is ready, or nothing by `deadline`.
std::optional<size_t> wait_any_call(std::span<Call* const> calls, TimePoint deadline);

}  // namespace internal

template <typename R>
class Future {
 public:
  using Duration = std::chrono::nanoseconds;

  Future() = default;
  explicit Future(internal::Ref<internal::ValueCall<R>> call) : call_(std::move(call)) {}
  Future(Future&& other) noexcept : call_(std::move(other.call_)) {}
  Future& operator=(Future&& other) noexcept {
    Future(std::move(other)).swap(*this);
    return *this;
  }
  ~Future() {
    if (call_) call_->detach();
  }

  // False after get(), and for a default-constructed future.
  bool valid() const { return static_cast<bool>(call_); }
  bool ready() const { return call().ready(); }
  // Waits; true when ready.
  bool wait_for(Duration timeout) const {
    return internal::wait_for_call_until(call(), internal::deadline_in(timeout));
  }
  void wait() const { internal::wait_for_call(call()); }

  R get() {
    internal::wait_for_call(call());
    return take();
  }
  R get(Duration timeout) {
    if (!wait_for(timeout)) {
      internal::throw_remote(RemoteErrorKind::kTimeout,
                             std::string("the result of ") + call().method().name + " is not there yet");
    }
    return take();
  }

  // Gives the call up: if it has not begun it will not run, else stop_requested() becomes true in it. The outcome is
  // `cancelled`. False: too late, the outcome is there.
  bool cancel() { return internal::cancel_call(call()); }

  internal::Call& call() const {
    PARL_CHECK(call_, "this future holds nothing: get() was called already, or it never belonged to a call");
    return *call_;
  }
  void swap(Future& other) noexcept { std::swap(call_, other.call_); }

 private:
  R take() {
    const internal::Ref<internal::ValueCall<R>> call = std::move(call_);
    call->settle();
    return call->take();
  }
  internal::Ref<internal::ValueCall<R>> call_;
};

// Index of the first ready future; waits. Futures already fetched are not looked at. Throws parl::Error if none is
// left.
template <typename R>
size_t wait_any(const std::vector<Future<R>>& futures) {
  return *wait_any(futures, std::chrono::nanoseconds::max());
}

// The same within `timeout`; empty: none.
template <typename R>
std::optional<size_t> wait_any(const std::vector<Future<R>>& futures, std::chrono::nanoseconds timeout) {
  std::vector<internal::Call*> calls;
  std::vector<size_t> places;
  for (size_t i = 0; i < futures.size(); ++i) {
    if (!futures[i].valid()) continue;
    calls.push_back(&futures[i].call());
    places.push_back(i);
  }
  PARL_CHECK(!calls.empty(), "wait_any: no future is left to wait for");
  const auto found = internal::wait_any_call(calls, internal::deadline_in(timeout));
  return found ? std::optional(places[*found]) : std::nullopt;
}

// Waits until all are ready (whatever their outcome).
template <typename R>
void wait_all(const std::vector<Future<R>>& futures) {
  for (const Future<R>& f : futures) {
    if (f.valid()) f.wait();
  }
}
template <typename... R>
void wait_all(const Future<R>&... futures) {
  ((futures.valid() ? futures.wait() : void()), ...);
}

}  // namespace parl
