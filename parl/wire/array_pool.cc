#include "parl/wire/array_pool.h"

#include <deque>
#include <mutex>

namespace parl {
namespace {
thread_local ArrayAllocator* current_allocator = nullptr;
}  // namespace

ArrayAllocatorScope::ArrayAllocatorScope(ArrayAllocator* allocator) : before_(current_allocator) {
  current_allocator = allocator;
}
ArrayAllocatorScope::~ArrayAllocatorScope() { current_allocator = before_; }
ArrayAllocator* ArrayAllocatorScope::current() { return current_allocator; }

class ArrayPool::Shelf : public ArrayOwner, public std::enable_shared_from_this<Shelf> {
 public:
  explicit Shelf(size_t limit) : limit_(limit) {}

  ArrayBlock take(size_t bytes) {
    {
      std::lock_guard lock(mutex_);
      auto best = free_.end();
      for (auto it = free_.begin(); it != free_.end(); ++it) {
        const bool fits = it->capacity() >= bytes && it->capacity() - bytes <= bytes / 4;
        if (fits && (best == free_.end() || it->capacity() < best->capacity())) best = it;
      }
      if (best != free_.end()) {
        ArrayBlock kept = std::move(*best);
        free_.erase(best);
        kept_ -= kept.capacity();
        ++reused_;
        return mark(std::move(kept));
      }
    }
    return mark(ArrayBlock::from_malloc(bytes));
  }

  void release(std::byte* data, size_t capacity) noexcept override {
    std::deque<ArrayBlock> evicted;  // freed outside the lock
    ArrayBlock piece(data, capacity, nullptr);
    std::lock_guard lock(mutex_);
    if (capacity > limit_) return;
    try {
      while (kept_ + capacity > limit_) {
        kept_ -= free_.front().capacity();
        evicted.push_back(std::move(free_.front()));
        free_.pop_front();
      }
      free_.push_back(std::move(piece));
      kept_ += capacity;
    } catch (...) {  // no memory for the list: the piece is freed
    }
  }

  void close() {
    std::deque<ArrayBlock> freed;
    std::lock_guard lock(mutex_);
    limit_ = 0;
    kept_ = 0;
    freed.swap(free_);
  }

  size_t kept() {
    std::lock_guard lock(mutex_);
    return kept_;
  }
  uint64_t reused() {
    std::lock_guard lock(mutex_);
    return reused_;
  }

 private:
  // From a block that frees itself to one that comes back here.
  ArrayBlock mark(ArrayBlock plain) {
    const size_t capacity = plain.capacity();
    return ArrayBlock(plain.leave(), capacity, shared_from_this());
  }

  std::mutex mutex_;
  std::deque<ArrayBlock> free_;
  size_t limit_, kept_ = 0;
  uint64_t reused_ = 0;
};

ArrayPool::ArrayPool(size_t limit) : shelf_(std::make_shared<Shelf>(limit)) {}
ArrayPool::~ArrayPool() { shelf_->close(); }
ArrayBlock ArrayPool::allocate(size_t bytes) { return shelf_->take(bytes); }
size_t ArrayPool::kept_bytes() const { return shelf_->kept(); }
uint64_t ArrayPool::reused() const { return shelf_->reused(); }

}  // namespace parl
