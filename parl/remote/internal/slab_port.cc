#include "parl/remote/internal/slab_port.h"

#include <cstring>

#include "parl/core/check.h"

namespace parl::internal {

void SlabPort::set_limit(size_t limit) {
  limit_ = limit;
  pool_ = std::make_shared<SlabPool>(limit);
}

std::shared_ptr<Slab> SlabPort::find_peer(uint32_t id) const {
  std::lock_guard lock(mutex_);
  for (const auto& slab : peer_slabs_)
    if (slab->id() == id) return slab;
  return nullptr;
}

AttachmentPlace SlabPort::lay(const Attachment& attachment, bool may_take) {
  AttachmentPlace place;
  place.bytes = attachment.bytes;
  const uint32_t kind = attachment.array ? AttachmentPlace::kIsArray : 0;
  auto* home = attachment.array && may_take && !attachment.is_shared
                   ? dynamic_cast<Slab*>(attachment.array->block().owner())
                   : nullptr;
  if (home) {
    const bool own = pool_->find(home->id()).get() == home;
    if (own || find_peer(home->id()).get() == home) {
      // The writer's owner allowed it: the array ends here and goes on in the other process.
      ArrayBlock block = std::move(*const_cast<Array*>(attachment.array)).release_block();
      place.slab = home->id();
      place.offset = home->depart(std::move(block));
      place.where = kind | (own ? AttachmentPlace::kSendersSlab : AttachmentPlace::kReceiversSlab);
      return place;
    }
  }
  place.where = kind | AttachmentPlace::kCopied | AttachmentPlace::kInStream;
  if (limit_ == 0) return place;
  ArrayBlock block = pool_->allocate(attachment.bytes);
  if (!block) return place;
  std::memcpy(block.data(), attachment.data, attachment.bytes);
  auto* slab = static_cast<Slab*>(block.owner());
  place.slab = slab->id();
  place.offset = slab->depart(std::move(block));
  place.where = kind | AttachmentPlace::kCopied | AttachmentPlace::kSendersSlab;
  return place;
}

OutgoingFrame SlabPort::pack(uint8_t kind, uint64_t id, const Writer& writer, bool may_take) {
  return pack_frame(kind, id, writer, [&](const Attachment& attachment) { return lay(attachment, may_take); });
}

std::vector<OutgoingFrame> SlabPort::announce(uint8_t kind) {
  std::vector<OutgoingFrame> frames;
  for (const auto& slab : pool_->take_new()) {
    OutgoingFrame frame;
    frame.prefix.kind = kind;
    frame.prefix.id = slab->id();
    frame.descriptor = slab->take_fd();
    frames.push_back(std::move(frame));
  }
  return frames;
}

void SlabPort::add_peer_slab(UniqueFd fd) {
  auto slab = Slab::open(std::move(fd));
  PARL_CHECK(!find_peer(slab->id()), "a peer sent slab {} twice", slab->id());
  std::lock_guard lock(mutex_);
  peer_slabs_.push_back(std::move(slab));
}

ArrayBlock SlabPort::arrive(const AttachmentPlace& place) {
  const uint32_t where = place.where & AttachmentPlace::kPlaceMask;
  std::shared_ptr<Slab> slab;
  if (where == AttachmentPlace::kSendersSlab) slab = find_peer(place.slab);
  if (where == AttachmentPlace::kReceiversSlab) slab = pool_->find(place.slab);
  return slab ? slab->arrive(place.offset, place.bytes) : ArrayBlock();
}

}  // namespace parl::internal
