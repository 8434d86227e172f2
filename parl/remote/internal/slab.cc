#include "parl/remote/internal/slab.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "parl/core/check.h"

namespace parl::internal {
namespace {

constexpr uint64_t kMagic = 0x62616c536c726150;  // "ParlSlab"
constexpr uint32_t kFree = 0, kHeld = 1, kTravelling = 2;
constexpr size_t kMaxPages = size_t{1} << 28;  // 1 TiB

struct SlabHeader {
  uint64_t magic;
  uint64_t pages;
  uint32_t id;
};

size_t pages_of(size_t bytes) { return (bytes + Slab::kPage - 1) / Slab::kPage; }

// The header, then one state word per page, rounded up to whole pages.
size_t data_offset(size_t pages) { return pages_of(sizeof(SlabHeader) + 64 + pages * sizeof(uint32_t)) * Slab::kPage; }

}  // namespace

bool Slab::map(int fd, size_t total) {
  void* base = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (base == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(base);
  total_ = total;
  return true;
}

std::shared_ptr<Slab> Slab::create(uint32_t id, size_t bytes) {
  const size_t pages = pages_of(bytes);
  const size_t total = data_offset(pages) + pages * kPage;
  std::shared_ptr<Slab> slab(new Slab());
  slab->fd_.reset(::memfd_create("parl-slab", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int fd = slab->fd_.get();
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(total)) != 0) return nullptr;
  if (::fallocate(fd, 0, 0, static_cast<off_t>(total)) != 0) return nullptr;
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return nullptr;
  if (!slab->map(fd, total)) return nullptr;
  slab->id_ = id;
  slab->pages_ = pages;
  slab->data_ = slab->base_ + data_offset(pages);
  new (slab->base_) SlabHeader{kMagic, pages, id};
  return slab;
}

std::shared_ptr<Slab> Slab::open(UniqueFd fd) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  PARL_CHECK(seals >= 0 && (seals & F_SEAL_SHRINK), "a peer sent a descriptor that is no sealed shared memory");
  struct stat info {};
  PARL_CHECK(::fstat(fd.get(), &info) == 0, "cannot read the size of shared memory: {}", std::strerror(errno));
  const auto total = static_cast<size_t>(info.st_size);
  PARL_CHECK(total >= 2 * kPage && total / kPage <= kMaxPages, "shared memory of {} bytes is no slab", total);
  std::shared_ptr<Slab> slab(new Slab());
  PARL_CHECK(slab->map(fd.get(), total), "cannot map {} bytes of shared memory: {}", total, std::strerror(errno));
  SlabHeader header{};
  std::memcpy(&header, slab->base_, sizeof header);
  PARL_CHECK(
      header.magic == kMagic && header.pages <= kMaxPages && data_offset(header.pages) + header.pages * kPage == total,
      "shared memory of {} bytes is no slab", total);
  slab->id_ = header.id;
  slab->pages_ = header.pages;
  slab->data_ = slab->base_ + data_offset(header.pages);
  return slab;
}

Slab::~Slab() {
  if (base_) ::munmap(base_, total_);
}

std::atomic<uint32_t>& Slab::state(size_t page) const {
  static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  return *(reinterpret_cast<std::atomic<uint32_t>*>(base_ + 64) + page);
}

ArrayBlock Slab::hold(size_t first_page, size_t bytes) {
  state(first_page).store(kHeld, std::memory_order_relaxed);
  return ArrayBlock(data_ + first_page * kPage, pages_of(bytes) * kPage, shared_from_this());
}

size_t Slab::depart(ArrayBlock block) {
  const size_t offset = offset_of(block.data());
  block.leave();
  state(offset / kPage).store(kTravelling, std::memory_order_release);
  return offset;
}

ArrayBlock Slab::arrive(uint64_t offset, uint64_t bytes) {
  if (offset % kPage != 0 || bytes == 0 || offset / kPage >= pages_ || bytes > pages_ * kPage - offset) return {};
  uint32_t expected = kTravelling;
  const size_t page = offset / kPage;
  if (!state(page).compare_exchange_strong(expected, kHeld, std::memory_order_acq_rel)) return {};
  return ArrayBlock(data_ + offset, pages_of(bytes) * kPage, shared_from_this());
}

bool Slab::is_free(size_t first_page) const { return state(first_page).load(std::memory_order_acquire) == kFree; }

void Slab::release(std::byte* data, size_t) noexcept {
  state(offset_of(data) / kPage).store(kFree, std::memory_order_release);
}

void SlabPool::collect(Part& part) {
  auto& used = part.used;
  for (size_t i = 0; i < used.size();) {
    if (!part.slab->is_free(used[i].first)) {
      ++i;
      continue;
    }
    auto [first, pages] = used[i];
    used[i] = used.back();
    used.pop_back();
    auto next = part.free.lower_bound(first);
    if (next != part.free.end() && first + pages == next->first) {
      pages += next->second;
      next = part.free.erase(next);
    }
    if (next != part.free.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == first) {
        before->second += pages;
        continue;
      }
    }
    part.free.emplace(first, pages);
  }
}

// Best fit, lowest first: what was used last is used again, while it is still in the cache.
std::optional<size_t> SlabPool::cut(Part& part, size_t pages) {
  auto best = part.free.end();
  for (auto it = part.free.begin(); it != part.free.end(); ++it)
    if (it->second >= pages && (best == part.free.end() || it->second < best->second)) best = it;
  if (best == part.free.end()) return std::nullopt;
  const auto [first, length] = *best;
  part.free.erase(best);
  if (length > pages) part.free.emplace(first + pages, length - pages);
  part.used.emplace_back(first, pages);
  return first;
}

SlabPool::Part* SlabPool::grow(size_t pages) {
  const size_t bytes = pages * Slab::kPage;
  if (out_of_memory_ || bytes > limit_ - reserved_) return nullptr;
  const size_t size = std::min(std::max(next_, 2 * bytes), limit_ - reserved_);
  auto slab = Slab::create(static_cast<uint32_t>(parts_.size()), size);
  if (!slab) {
    out_of_memory_ = true;  // asked once: every later request would pay for the same answer
    return nullptr;
  }
  reserved_ += slab->pages() * Slab::kPage;
  next_ = 2 * size;
  new_.push_back(slab);
  parts_.push_back({slab, {{0, slab->pages()}}, {}});
  return &parts_.back();
}

ArrayBlock SlabPool::allocate(size_t bytes) {
  const size_t pages = pages_of(bytes);
  std::lock_guard lock(mutex_);
  for (auto& part : parts_) {
    collect(part);
    if (const auto first = cut(part, pages)) return part.slab->hold(*first, bytes);
  }
  if (Part* part = grow(pages)) return part->slab->hold(*cut(*part, pages), bytes);
  ++refused_;
  return {};
}

std::vector<std::shared_ptr<Slab>> SlabPool::take_new() {
  std::lock_guard lock(mutex_);
  return std::exchange(new_, {});
}

std::shared_ptr<Slab> SlabPool::find(uint32_t id) const {
  std::lock_guard lock(mutex_);
  return id < parts_.size() ? parts_[id].slab : nullptr;
}

size_t SlabPool::reserved_bytes() const {
  std::lock_guard lock(mutex_);
  return reserved_;
}

size_t SlabPool::used_bytes() const {
  std::lock_guard lock(mutex_);
  size_t pages = 0;
  for (const auto& part : parts_)
    for (const auto& [first, count] : part.used)
      if (!part.slab->is_free(first)) pages += count;
  return pages * Slab::kPage;
}

uint64_t SlabPool::refused() const {
  std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace parl::internal
