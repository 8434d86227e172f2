#include "parl/env/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

thread_local uint64_t thread_count = 0;
std::atomic<uint64_t> total_count{0};

void count() {
  ++thread_count;
  total_count.fetch_add(1, std::memory_order_relaxed);
}

void* allocate(std::size_t size) {
  count();
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

void* allocate(std::size_t size, std::align_val_t alignment) {
  count();
  void* memory = nullptr;
  const std::size_t at_least = sizeof(void*);
  const auto wanted = static_cast<std::size_t>(alignment);
  if (posix_memalign(&memory, wanted > at_least ? wanted : at_least, size > 0 ? size : 1) == 0) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, std::align_val_t alignment) { return allocate(size, alignment); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return allocate(size, alignment); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  count();
  return std::malloc(size > 0 ? size : 1);
}
void* operator new[](std::size_t size, const std::nothrow_t& nothrow) noexcept { return operator new(size, nothrow); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace parl {

uint64_t allocations_of_this_thread() { return thread_count; }
uint64_t allocations_of_all_threads() { return total_count.load(std::memory_order_relaxed); }

}  // namespace parl
