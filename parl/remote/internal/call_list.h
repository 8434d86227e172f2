// A first-in first-out list of calls, linked through Call::next: no allocation. Owns its calls. Not thread-safe.
#pragma once

#include <utility>

#include "parl/remote/internal/call.h"

namespace parl::internal {

class CallList {
 public:
  CallList() = default;
  CallList(const CallList&) = delete;
  CallList& operator=(const CallList&) = delete;
  ~CallList() {
    while (pop()) {
    }
  }
  bool empty() const { return head_ == nullptr; }
  void push(CallRef call) {
    Call* c = call.leave();
    c->next = nullptr;
    (tail_ ? tail_->next : head_) = c;
    tail_ = c;
  }
  // Empty when the list is.
  CallRef pop() {
    Call* c = head_;
    if (c) head_ = std::exchange(c->next, nullptr);
    if (!head_) tail_ = nullptr;
    return CallRef::adopt(c);
  }
  void swap(CallList& other) noexcept {
    std::swap(head_, other.head_);
    std::swap(tail_, other.tail_);
  }

 private:
  Call* head_ = nullptr;
  Call* tail_ = nullptr;
};

}  // namespace parl::internal
