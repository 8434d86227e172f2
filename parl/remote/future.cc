#include "parl/remote/future.h"

#include <condition_variable>
#include <memory>
#include <mutex>

#include "parl/remote/internal/context.h"
#include "parl/remote/internal/engine.h"

namespace parl::internal {

bool wait_for_call_until(Call& call, TimePoint deadline) {
  if (call.ready()) return true;
  ObjectChannel* channel = call.channel();
  return channel ? channel->wait(call, deadline) : call.wait_ready(deadline);
}

bool cancel_call(Call& call) {
  call.give_up();
  if (!call.fail(make_failure(RemoteErrorKind::kCancelled, "the call was cancelled"))) return false;
  if (ObjectChannel* channel = call.channel()) channel->given_up(call);
  return true;
}

namespace {

// Shared with the listeners, which may come late.
struct AnyState {
  std::mutex mutex;
  std::condition_variable condition;
  std::optional<size_t> first;
};

}  // namespace

std::optional<size_t> wait_any_call(std::span<Call* const> calls, TimePoint deadline) {
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i]->ready()) return i;
  }
  if (calls.size() == 1) {
    if (deadline == kForever) return wait_for_call(*calls[0]), 0;
    return wait_for_call_until(*calls[0], deadline) ? std::optional<size_t>(0) : std::nullopt;
  }
  auto state = std::make_shared<AnyState>();
  std::vector<uint64_t> numbers;
  for (size_t i = 0; i < calls.size(); ++i) {
    numbers.push_back(calls[i]->add_listener([state, i] {
      {
        std::lock_guard lock(state->mutex);
        if (state->first) return;
        state->first = i;
      }
      state->condition.notify_one();
    }));
  }
  std::optional<size_t> first;
  {
    std::unique_lock lock(state->mutex);
    const auto is_there = [&] { return state->first.has_value(); };
    if (deadline == kForever) {
      state->condition.wait(lock, is_there);
    } else {
      state->condition.wait_until(lock, deadline, is_there);
    }
    first = state->first;
  }
  for (size_t i = 0; i < calls.size(); ++i) calls[i]->remove_listener(numbers[i]);
  return first;
}

}  // namespace parl::internal
