// Frames on a stream socket: one fixed prefix, a table of attachments, the head, then the attachments' raw bytes.
//
//   prefix (32 bytes)  magic u32 | kind u8 | pad 3 | id u64 | head bytes u64 | attachments u32 | pad u32
//   table              per attachment: bytes u64 | offset u64 | slab u32 | where u32  (24 bytes)
//   head               what a Writer wrote
//   bodies             of the attachments that travel in the stream, in order; the others lie in shared memory
//
// Sending gathers all of it in one sendmsg without copying; receiving puts each body straight into the block that an
// Array will own. Sizes are checked against FrameLimits before memory is taken, and what is announced is not yet there:
// memory above FrameSteps grows with what has come, to at most twice that. A body for which there is
// no memory is skipped, and the frame says so: the connection lives on. Everything here works on any stream socket;
// descriptors are passed on unix sockets only. Thread rule: a FrameParser or FrameReader belongs to one thread, a
// FrameSender to whoever holds its connection's lock. Throws WireError for garbage: the connection is beyond repair
// then.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "parl/remote/internal/unique_fd.h"
#include "parl/wire/archive.h"

struct msghdr;

namespace parl::internal {

struct FrameLimits {
  uint64_t head = uint64_t{1} << 30;
  uint64_t total = uint64_t{1} << 40;
  uint32_t attachments = 1u << 20;
};

// Throws WireError when what `writer` holds is above the limits of the peer.
void check_frame_size(const Writer& writer, const FrameLimits& limits = {});

// Memory that is taken on the word of a peer; more doubles as it fills. A body's is not touched before its bytes come.
struct FrameSteps {
  size_t table = 1024;  // attachments
  size_t head = size_t{256} << 10;
  size_t body = size_t{32} << 20;
};

inline constexpr FrameLimits kStrangerLimits{4096, 4096, 0};  // before authentication

// Where an attachment's bytes are.
struct AttachmentPlace {
  static constexpr uint32_t kInStream = 0;
  static constexpr uint32_t kSendersSlab = 1;
  static constexpr uint32_t kReceiversSlab = 2;
  static constexpr uint32_t kPlaceMask = 0xff;
  static constexpr uint32_t kIsArray = 0x100;  // for the statistics
  static constexpr uint32_t kCopied = 0x200;
  uint64_t bytes = 0;
  uint64_t offset = 0;
  uint32_t slab = 0;
  uint32_t where = kInStream;
};
static_assert(sizeof(AttachmentPlace) == 24);

struct FramePrefix {
  static constexpr uint32_t kMagic = 0x4c524150;  // "PARL"
  uint32_t magic = kMagic;
  uint8_t kind = 0;
  uint8_t pad[3] = {};
  uint64_t id = 0;
  uint64_t head = 0;
  uint32_t attachments = 0;
  uint32_t pad2 = 0;
};
static_assert(sizeof(FramePrefix) == 32);

struct Frame {
  uint8_t kind = 0;
  uint64_t id = 0;
  std::vector<std::byte> head;
  std::vector<AttachmentPlace> places;
  std::vector<ReceivedAttachment> attachments;
  bool out_of_memory = false;  // the head or an attachment could not be stored and is empty

  Reader reader() { return Reader(head, attachments); }
};

// Puts frames together from the bytes of a stream, in whatever pieces they come.
class FrameParser {
 public:
  // Takes over a block that lies in shared memory; empty: there is none. Null function: none are accepted.
  using Arrive = std::function<ArrayBlock(const AttachmentPlace&)>;

  explicit FrameParser(FrameLimits limits = {}, Arrive arrive = nullptr, FrameSteps steps = {});
  FrameParser(const FrameParser&) = delete;
  FrameParser& operator=(const FrameParser&) = delete;
  void set_limits(FrameLimits limits) { limits_ = limits; }

  // Takes from the front of `bytes` what belongs to the next frame. True: that frame is whole.
  bool parse(std::span<const std::byte>& bytes, Frame& out);
  // Where the next bytes of the stream may be put without parse(); then filled() says how many were. May be empty.
  std::span<std::byte> direct() {
    return target_ ? std::span(target_ + filled_, room_ - filled_) : std::span<std::byte>();
  }
  void filled(size_t bytes) { filled_ += bytes; }
  bool mid_frame() const { return stage_ != Stage::kPrefix || filled_ > 0; }

 private:
  enum class Stage { kPrefix, kTable, kHead, kBody };
  void consume(std::span<const std::byte>& bytes);
  void expect(Stage stage, size_t bytes, size_t at_once);
  void make_room(size_t bytes);
  std::byte* take_memory(size_t bytes);
  void drop_part();
  void begin_prefix();
  void begin_table();
  void begin_head();
  bool next_body();
  bool next_part();

  FrameLimits limits_;
  const Arrive arrive_;
  const FrameSteps steps_;
  std::byte* target_ = nullptr;                // null: the bytes are dropped
  size_t wanted_ = 0, room_ = 0, filled_ = 0;  // of the present part: its bytes, those with memory, those that are here
  Stage stage_ = Stage::kPrefix;
  FramePrefix prefix_;
  size_t body_ = 0;  // the present one, at kBody
  Frame frame_;
};

class FrameReader {
 public:
  enum class Got { kFrame, kNothing, kClosed };
  using Arrive = FrameParser::Arrive;

  explicit FrameReader(FrameLimits limits = {}, Arrive arrive = nullptr, bool accept_descriptors = false);
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;
  void set_limits(FrameLimits limits) { parser_.set_limits(limits); }

  // The next frame. Reads from `fd` when none is buffered whole. Without `wait`, or on a non-blocking descriptor,
  // kNothing says that there is none yet, or that it is so large that others should have their turn first.
  Got next(int fd, Frame& out, bool wait = true);
  // A frame that is buffered whole; reads nothing.
  bool next_buffered(Frame& out) { return parse(out); }
  // Descriptors that came along, oldest first.
  UniqueFd take_descriptor();
  // In the middle of a frame: a peer that closes now was cut off.
  bool mid_frame() const { return parser_.mid_frame(); }
  uint64_t bytes_received() const { return received_; }

 private:
  bool parse(Frame& out);
  void store_descriptors(const ::msghdr& message);

  FrameParser parser_;
  const bool accept_descriptors_;
  std::unique_ptr<std::byte[]> scratch_;
  size_t begin_ = 0, end_ = 0;
  std::deque<UniqueFd> descriptors_;
  uint64_t received_ = 0;
};

// One frame on its way out. The pieces point at memory of the caller.
struct OutgoingFrame {
  FramePrefix prefix;
  std::vector<AttachmentPlace> places;
  std::span<const std::byte> head;
  std::vector<std::span<const std::byte>> bodies;
  UniqueFd descriptor;
  std::shared_ptr<const void> keep;

  static constexpr size_t kMaxPieces = 64;

  uint64_t bytes() const;
  // Adds the pieces from byte `from` on to pieces[count...], at most `bytes` of them. Returns how many they cover.
  size_t gather(uint64_t from, size_t bytes, std::array<iovec, kMaxPieces>& pieces, size_t& count) const;
  // Copies what head and bodies point at, and keeps the copy.
  void keep_copy();
};

// A frame of what `writer` holds. `lay(attachment)` says where each attachment goes; those that go in the stream are
// its bodies.
template <typename Lay>
OutgoingFrame pack_frame(uint8_t kind, uint64_t id, const Writer& writer, Lay&& lay) {
  OutgoingFrame frame;
  frame.prefix.kind = kind;
  frame.prefix.id = id;
  frame.head = writer.head();
  frame.prefix.head = frame.head.size();
  frame.prefix.attachments = static_cast<uint32_t>(writer.attachments().size());
  for (const Attachment& attachment : writer.attachments()) {
    frame.places.push_back(lay(attachment));
    if ((frame.places.back().where & AttachmentPlace::kPlaceMask) == AttachmentPlace::kInStream)
      frame.bodies.emplace_back(attachment.data, attachment.bytes);
  }
  return frame;
}

// The outgoing side of a connection: frames in order, as much at once as the socket takes.
class FrameSender {
 public:
  enum class Sent { kAll, kPending, kClosed };
  // Sends the frame, or queues what the socket does not take; then `keep` is asked once for the owner of what the
  // frame points at, who lives until it has gone. Without `keep` the pieces are copied.
  Sent send(int fd, OutgoingFrame frame, const std::function<std::shared_ptr<const void>()>& keep = nullptr);
  // Continues with what is queued, at most `budget` bytes.
  Sent flush(int fd, size_t budget = size_t{8} << 20);
  bool pending() const { return !queue_.empty(); }
  uint64_t queued_bytes() const { return queued_; }

 private:
  bool advance(int fd, OutgoingFrame& frame, size_t& budget, bool& closed);

  std::deque<OutgoingFrame> queue_;
  uint64_t done_ = 0;  // bytes of the front frame already sent
  uint64_t queued_ = 0;
};

}  // namespace parl::internal
