#include "parl/remote/internal/growing_block.h"

#include <sys/mman.h>

#include <new>

namespace parl::internal {
namespace {

class Pages final : public ArrayOwner {
 public:
  void release(std::byte* data, size_t capacity) noexcept override { ::munmap(data, capacity); }
};

const std::shared_ptr<ArrayOwner>& pages() {
  static const auto& owner = *new std::shared_ptr<ArrayOwner>(std::make_shared<Pages>());
  return owner;
}

}  // namespace

ArrayBlock map_block(size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  ::madvise(data, bytes, MADV_HUGEPAGE);  // advice: where there are none, it is as without
  return ArrayBlock(static_cast<std::byte*>(data), bytes, pages());
}

void grow_block(ArrayBlock& block, size_t bytes) {
  void* data = ::mremap(block.data(), block.capacity(), bytes, MREMAP_MAYMOVE);
  if (data == MAP_FAILED) throw std::bad_alloc();
  block.leave();
  block = ArrayBlock(static_cast<std::byte*>(data), bytes, pages());
}

}  // namespace parl::internal
