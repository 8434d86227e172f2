// Where large arrays come from: a thread installs an allocator for a scope, and arrays above kArrayPoolThreshold made
// by that thread live in its memory. An allocator that has nothing left returns an empty block; malloc serves then.
//
//   ArrayPool pool(256 << 20);
//   ArrayAllocatorScope scope(&pool);          // this thread, until the end of the block
//   Array a = Array::empty(DType::kF32, {1 << 20});   // recycled memory: no page faults after the first round
//
// Thread rule: ArrayPool from any thread; blocks come back from any thread, also after the pool is gone (they are freed
// then). An ArrayAllocatorScope lives and dies on one thread, innermost first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "parl/wire/array.h"

namespace parl {

class ArrayAllocator {
 public:
  virtual ~ArrayAllocator() = default;
  // At least `bytes` of 64-byte aligned memory, or an empty block: none left.
  virtual ArrayBlock allocate(size_t bytes) = 0;
};

class ArrayAllocatorScope {
 public:
  explicit ArrayAllocatorScope(ArrayAllocator* allocator);
  ~ArrayAllocatorScope();
  ArrayAllocatorScope(const ArrayAllocatorScope&) = delete;
  ArrayAllocatorScope& operator=(const ArrayAllocatorScope&) = delete;

  // The calling thread's allocator; null: malloc.
  static ArrayAllocator* current();

 private:
  ArrayAllocator* before_;
};

// Keeps at most `limit` bytes of returned blocks and hands them out again to requests of similar size.
class ArrayPool : public ArrayAllocator {
 public:
  explicit ArrayPool(size_t limit = size_t{256} << 20);
  ~ArrayPool() override;
  ArrayBlock allocate(size_t bytes) override;

  size_t kept_bytes() const;
  uint64_t reused() const;  // requests served from returned blocks

 private:
  class Shelf;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace parl
