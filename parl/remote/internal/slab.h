// Shared memory between two processes, for arrays too big to pass through a socket.
//
// A Slab is one memfd, mapped by both sides; its descriptor crosses the socket once, and no name is left behind. Its
// pages are reserved and touched when it is made, and it is sealed against shrinking, so "full" is a failed request and
// never SIGBUS. A SlabPool belongs to the side that allocates: it cuts blocks of whole pages out of its slabs and makes
// another slab when they are used up, until `limit` bytes. Each block has one owner at a time, in either process; who
// owns it last marks it free in the slab itself (one atomic byte per block, no message and no system call), and the
// pool collects the marks at its next request.
//
//   maker: allocate -> [held] -> send: depart() -> [travelling] -> receiver: arrive() -> [held] -> release() -> [free]
//
// arrive() refuses everything but the start of a travelling block, so no peer can make us read outside a slab or own
// a block twice. When a peer dies its blocks stay readable until their last reader lets go; then the memory is
// unmapped. Thread rule: any thread. allocate() blocks while a new slab is reserved (about 0.3 ms per MiB).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "parl/remote/internal/unique_fd.h"
#include "parl/wire/array_pool.h"

namespace parl::internal {

class Slab final : public ArrayOwner, public std::enable_shared_from_this<Slab> {
 public:
  static constexpr size_t kPage = 4096;

  // A new slab with room for `bytes`; null when the system has no memory or descriptor for it.
  static std::shared_ptr<Slab> create(uint32_t id, size_t bytes);
  // Maps a slab that a peer made. Throws parl::Error when the descriptor is not one, or not sealed.
  static std::shared_ptr<Slab> open(UniqueFd fd);
  ~Slab() override;
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  uint32_t id() const { return id_; }
  size_t pages() const { return pages_; }
  // The memfd, to be sent to the peer once; empty afterwards (the mapping keeps the memory).
  UniqueFd take_fd() { return std::move(fd_); }

  bool contains(const std::byte* data) const { return data >= data_ && data < data_ + pages_ * kPage; }
  size_t offset_of(const std::byte* data) const { return static_cast<size_t>(data - data_); }

  // Marks the block at a page as held by this process and wraps it. For the pool.
  ArrayBlock hold(size_t first_page, size_t bytes);
  // Gives up a block that lies in this slab, for the peer: its offset travels.
  size_t depart(ArrayBlock block);
  // Takes over a travelling block. Empty: there is none at that place.
  ArrayBlock arrive(uint64_t offset, uint64_t bytes);
  bool is_free(size_t first_page) const;
  void release(std::byte* data, size_t capacity) noexcept override;

 private:
  Slab() = default;
  bool map(int fd, size_t total);
  std::atomic<uint32_t>& state(size_t page) const;

  uint32_t id_ = 0;
  size_t pages_ = 0;
  size_t total_ = 0;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  UniqueFd fd_;
};

class SlabPool final : public ArrayAllocator {
 public:
  explicit SlabPool(size_t limit = size_t{256} << 20, size_t first = size_t{16} << 20) : limit_(limit), next_(first) {}

  ArrayBlock allocate(size_t bytes) override;
  // Slabs made since the last call; the peer must get their descriptors before any block of theirs.
  std::vector<std::shared_ptr<Slab>> take_new();
  std::shared_ptr<Slab> find(uint32_t id) const;

  size_t reserved_bytes() const;
  size_t used_bytes() const;  // blocks not yet given back
  uint64_t refused() const;   // requests that found no room

 private:
  struct Part {
    std::shared_ptr<Slab> slab;
    std::map<size_t, size_t> free;                // first page -> pages
    std::vector<std::pair<size_t, size_t>> used;  // first page, pages
  };
  static void collect(Part& part);
  static std::optional<size_t> cut(Part& part, size_t pages);
  Part* grow(size_t pages);

  const size_t limit_;
  size_t next_;
  mutable std::mutex mutex_;
  std::deque<Part> parts_;
  std::vector<std::shared_ptr<Slab>> new_;
  size_t reserved_ = 0;
  uint64_t refused_ = 0;
  bool out_of_memory_ = false;
};

}  // namespace parl::internal
