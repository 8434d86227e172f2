// One connection's door to shared memory: lays attachments of outgoing frames into slabs, and finds those of incoming
// ones. Both sides have one: each makes blocks in slabs of its own, and reads (and may send back) blocks of the
// other's.
//
//   an Array whose block lies in a slab of this connection   only its place travels; the array is empty afterwards
//   any other large payload, room in the pool                one copy into a slab
//   no room                                                  through the stream
// Thread rule: pack() and announce() by one sender at a time, arrive() and add_peer_slab() by the reading thread;
// sender and reader may be different threads.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "parl/remote/internal/frame.h"
#include "parl/remote/internal/slab.h"

namespace parl::internal {

class SlabPort {
 public:
  // `limit`: bytes of shared memory that this side may make; 0: none.
  explicit SlabPort(size_t limit) : limit_(limit), pool_(std::make_shared<SlabPool>(limit)) {}
  void set_limit(size_t limit);  // before the first use

  // The frame for what `writer` holds, pointing into it. `may_take`: the writer's arrays may be emptied.
  OutgoingFrame pack(uint8_t kind, uint64_t id, const Writer& writer, bool may_take);
  // Frames of `kind` that hand new slabs to the peer; to be sent before what pack() returned.
  std::vector<OutgoingFrame> announce(uint8_t kind);

  void add_peer_slab(UniqueFd fd);
  ArrayBlock arrive(const AttachmentPlace& place);

  // Null: no shared memory.
  ArrayAllocator* allocator() const { return limit_ ? pool_.get() : nullptr; }
  const SlabPool& pool() const { return *pool_; }

 private:
  AttachmentPlace lay(const Attachment& attachment, bool may_take);
  std::shared_ptr<Slab> find_peer(uint32_t id) const;

  size_t limit_;
  std::shared_ptr<SlabPool> pool_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Slab>> peer_slabs_;
};

}  // namespace parl::internal
