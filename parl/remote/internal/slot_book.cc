#include "parl/remote/internal/slot_book.h"

namespace parl::internal {

std::shared_ptr<void> SlotBook::acquire(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const auto can_go = [&] { return closed_ || total_ == 0 || used_ < total_; };
  if (deadline == kForever) {
    free_.wait(lock, can_go);
  } else if (!free_.wait_until(lock, deadline, can_go)) {
    throw_remote(RemoteErrorKind::kRefused,
                 fmt::format("no free slot: {} of {} are in use and none became free in time; drop a "
                             "handle, or give --parl-slots more",
                             used_, total_));
  }
  if (closed_) throw_remote(RemoteErrorKind::kClosed, "the manager has ended; no object can be created");
  ++used_;
  auto self = shared_from_this();
  return std::shared_ptr<void>(this, [self](void*) { self->give_back(); });
}

void SlotBook::give_back() noexcept {
  {
    std::lock_guard lock(mutex_);
    --used_;
  }
  free_.notify_one();
}

void SlotBook::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  free_.notify_all();
}

RemoteSlots SlotBook::read() {
  std::lock_guard lock(mutex_);
  return {total_, used_, total_ == 0 ? 0 : total_ - used_};
}

}  // namespace parl::internal
