// Slots: how many objects of a manager live. A slot is a lease that the object's channel holds until the object is
// gone, so the counts are those of what lives, not of book-keeping beside it. Thread rule: any thread. acquire()
// blocks.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "parl/remote/internal/call.h"
#include "parl/remote/stats.h"

namespace parl::internal {

class SlotBook : public std::enable_shared_from_this<SlotBook> {
 public:
  explicit SlotBook(int total) : total_(total) {}
  // Waits for a free slot. Throws RemoteError `refused` with the counts after `deadline`, `closed` after close().
  std::shared_ptr<void> acquire(TimePoint deadline);
  void close();
  RemoteSlots read();

 private:
  void give_back() noexcept;

  const int total_;  // 0: no limit
  std::mutex mutex_;
  std::condition_variable free_;
  int used_ = 0;
  bool closed_ = false;
};

}  // namespace parl::internal
