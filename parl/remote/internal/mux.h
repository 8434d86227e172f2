// Many objects on one connection: each has a stream of frames of its own, cut into chunks, and the chunks of all take
// turns. So a frame of many megabytes holds up the small ones of other objects by one chunk at most.
//
//   chunk (16 bytes)  mark u32 | object u32 | bytes u32 | 0 u32, then that many bytes of the object's frames (frame.h)
//
// Object 0 is the connection's own. Sending gathers a chunk's header and the pieces of its frame in one system call;
// receiving puts bodies straight into their final memory.
// Thread rule: a MuxReader belongs to one thread, a MuxSender to whoever holds its connection's lock.
// Throws WireError for garbage: the connection is beyond repair then.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <unordered_map>

#include "parl/remote/internal/frame.h"
#include "parl/remote/internal/transport.h"

namespace parl::internal {

inline constexpr uint32_t kMaxChunk = 256 * 1024;

struct ChunkHeader {
  static constexpr uint32_t kMark = 0x4b4c5250;  // "PRLK"
  uint32_t mark = kMark;
  uint32_t object = 0;
  uint32_t bytes = 0;
  uint32_t pad = 0;
};
static_assert(sizeof(ChunkHeader) == 16);

class MuxReader {
 public:
  enum class Got { kFrame, kNothing, kTurnOver, kClosed };

  // At most `streams` objects may be in the middle of a frame at once.
  MuxReader(FrameLimits limits, size_t streams);
  void set_limits(FrameLimits limits, size_t streams);

  // The next frame and its object. kNothing: the transport is drained; kTurnOver: there may be more, but others should
  // have their turn first.
  Got next(Transport& transport, uint32_t& object, Frame& out);
  uint64_t bytes_received() const { return received_; }
  // A peer that closes now was cut off in the middle of something.
  bool mid_frame() const { return header_filled_ > 0 || chunk_left_ > 0 || !streams_.empty(); }

 private:
  using Streams = std::unordered_map<uint32_t, std::unique_ptr<FrameParser>>;
  bool parse(uint32_t& object, Frame& out);
  bool take_header();
  void begin_chunk();
  void end_frame();
  ssize_t fill(Transport& transport);

  FrameLimits limits_;
  size_t max_streams_;
  Streams streams_;           // those in the middle of a frame, and the chunk's
  Streams::node_type spare_;  // a parser that rests: most frames are small and need one for a moment
  FrameParser* current_ = nullptr;
  ChunkHeader header_;
  size_t header_filled_ = 0;
  size_t chunk_left_ = 0;
  bool is_filled_ = false;  // bytes went past parse()
  std::unique_ptr<std::byte[]> scratch_;
  size_t begin_ = 0, end_ = 0;
  uint64_t received_ = 0, turn_ends_ = 0;
  bool in_turn_ = false;
};

class MuxSender {
 public:
  enum class Sent { kAll, kPending, kClosed };
  using Keep = std::function<std::shared_ptr<const void>()>;

  // Sends the frame, or queues what the socket does not take; then `keep` is asked once for the owner of what the frame
  // points at, who lives until it has gone. Without `keep` the pieces are copied.
  Sent send(Transport& transport, uint32_t object, OutgoingFrame frame, const Keep& keep = nullptr);
  // Continues with what is queued, at most about `budget` bytes.
  Sent flush(Transport& transport, size_t budget = size_t{1} << 20);
  bool pending() const { return !ring_.empty(); }
  uint64_t queued_bytes() const { return queued_; }
  uint64_t queued_bytes(uint32_t object) const;  // of one object
  uint64_t bytes_sent() const { return sent_; }

 private:
  struct Stream {
    uint32_t object = 0;
    std::list<OutgoingFrame> frames;
    uint64_t done = 0;  // bytes of the first frame that have gone
    uint64_t queued = 0;
  };
  enum class Pushed { kFrame, kChunk, kNotNow, kClosed };
  Pushed push_chunk(Transport& transport, uint32_t object, const OutgoingFrame& frame, uint64_t& done);
  void enqueue(uint32_t object, OutgoingFrame frame, uint64_t done, const Keep& keep);

  std::list<Stream> ring_;  // the first one's chunk is under way
  ChunkHeader header_;
  size_t header_left_ = 0, chunk_left_ = 0;  // of the chunk under way
  uint64_t queued_ = 0, sent_ = 0;
};

}  // namespace parl::internal
