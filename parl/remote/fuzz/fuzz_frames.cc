// A stream gives the same frames however it is cut into pieces; what a MuxSender sends, a MuxReader reads; and of
// several objects on one connection each gives the frames that its own bytes alone would give.
#include <algorithm>
#include <exception>
#include <map>
#include <string>
#include <tuple>

#include "parl/remote/fuzz/fuzz.h"
#include "parl/remote/internal/mux.h"

namespace parl::fuzz {
namespace {

using internal::AttachmentPlace;
using internal::ChunkHeader;
using internal::Frame;
using internal::FrameLimits;
using internal::FrameParser;
using internal::MuxReader;
using internal::MuxSender;
using internal::OutgoingFrame;
using internal::Transport;

constexpr FrameLimits kLimits{size_t{1} << 16, size_t{1} << 20, 64};
constexpr size_t kStreams = 4;
constexpr internal::FrameSteps kSmallSteps{1, 16, 100};

// How a stream is cut: 0 gives all that is there, else pieces of a size that changes from one to the next.
class Cuts {
 public:
  explicit Cuts(uint8_t seed) : state_(seed) {}
  size_t next(size_t left) {
    if (state_ == 0) return left;
    state_ = state_ * 1103515245 + 12345;
    const uint32_t draw = state_ >> 16;
    return std::min<size_t>(left, 1 + (draw % 8 == 0 ? draw % 9000 : draw % 40));
  }
  bool is_cutting() const { return state_ != 0; }
  bool coin() { return state_ != 0 && (state_ >> 20) % 2 == 0; }

 private:
  uint32_t state_;
};

struct Seen {
  uint32_t object = 0;
  uint8_t kind = 0;
  uint64_t id = 0;
  std::vector<std::byte> head;
  std::vector<std::vector<std::byte>> bodies;
  bool operator==(const Seen&) const = default;
};

Seen note(uint32_t object, const Frame& frame) {
  Seen seen{object, frame.kind, frame.id, frame.head, {}};
  require(frame.places.size() == frame.attachments.size(), "each attachment has its place");
  for (const ReceivedAttachment& attachment : frame.attachments) {
    require(attachment.bytes == 0 || attachment.block.capacity() >= attachment.bytes, "an attachment has its memory");
    const std::byte* first = attachment.block.data();
    seen.bodies.emplace_back(first, first + attachment.bytes);
  }
  return seen;
}

struct Outcome {
  std::vector<Seen> frames;
  std::string error;
  bool is_mid_frame = false;
  bool operator==(const Outcome&) const = default;
};

// Shared memory holds what is there for a place of fewer than 10,000 bytes.
ArrayBlock arrive(const AttachmentPlace& place) {
  return place.bytes < 10000 ? exact_block(static_cast<size_t>(std::max<uint64_t>(place.bytes, 1)), 7) : ArrayBlock();
}

Outcome parse(Input stream, Cuts cuts, const FrameLimits& limits) {
  Outcome out;
  FrameParser parser(limits, arrive, cuts.is_cutting() ? kSmallSteps : internal::FrameSteps{});
  Frame frame;
  std::span<const std::byte> left = as_bytes(stream);
  try {
    while (!left.empty()) {
      std::span<const std::byte> piece = left.first(cuts.next(left.size()));
      left = left.subspan(piece.size());
      const std::span<std::byte> direct = parser.direct();
      if (!direct.empty() && cuts.coin()) {
        const size_t count = std::min(direct.size(), piece.size());
        std::memcpy(direct.data(), piece.data(), count);
        parser.filled(count);
        piece = piece.subspan(count);
      }
      while (parser.parse(piece, frame)) out.frames.push_back(note(0, frame));
      require(piece.empty(), "a parser takes everything before it wants more");
    }
    out.is_mid_frame = parser.mid_frame();
  } catch (const WireError& error) {
    out.error = error.what();
  }
  return out;
}

// What is read was written to it, or is the input's; writing takes as much as the cuts say.
class MemoryTransport final : public Transport {
 public:
  explicit MemoryTransport(Cuts cuts, std::vector<std::byte> bytes = {}) : cuts_(cuts), bytes_(std::move(bytes)) {}

  ssize_t read(const iovec* pieces, int count) override {
    if (at_ == bytes_.size()) return is_ended_ ? kClosed : kNotNow;
    size_t left = cuts_.next(bytes_.size() - at_), done = 0;
    for (int i = 0; i < count && left > 0; ++i) {
      const size_t n = std::min(left, pieces[i].iov_len);
      if (n > 0) std::memcpy(pieces[i].iov_base, bytes_.data() + at_, n);
      at_ += n;
      left -= n;
      done += n;
    }
    return static_cast<ssize_t>(done);
  }
  ssize_t write(const iovec* pieces, int count) override {
    if (cuts_.coin()) {
      (void)cuts_.next(1);
      return kNotNow;
    }
    size_t total = 0, done = 0;
    for (int i = 0; i < count; ++i) total += pieces[i].iov_len;
    size_t left = cuts_.next(total);
    for (int i = 0; i < count && left > 0; ++i) {
      const size_t n = std::min(left, pieces[i].iov_len);
      const auto* first = static_cast<const std::byte*>(pieces[i].iov_base);
      bytes_.insert(bytes_.end(), first, first + n);
      left -= n;
      done += n;
    }
    return static_cast<ssize_t>(done);
  }
  void end_sending() override { is_ended_ = true; }
  int fd() const override { return -1; }
  std::string error() const override { return "the input is at its end"; }

 private:
  Cuts cuts_;
  std::vector<std::byte> bytes_;
  size_t at_ = 0;
  bool is_ended_ = false;
};

Outcome read_all(Transport& transport, const FrameLimits& limits) {
  Outcome out;
  MuxReader reader(limits, kStreams);
  Frame frame;
  uint32_t object = 0;
  try {
    for (;;) {
      const auto got = reader.next(transport, object, frame);
      if (got == MuxReader::Got::kFrame) out.frames.push_back(note(object, frame));
      if (got == MuxReader::Got::kClosed) break;
    }
    out.is_mid_frame = reader.mid_frame();
  } catch (const WireError& error) {
    out.error = error.what();
  }
  return out;
}

Outcome read_input(Input stream, Cuts cuts, const FrameLimits& limits) {
  MemoryTransport transport(cuts, copy_bytes(stream));
  transport.end_sending();
  return read_all(transport, limits);
}

using Streams = std::map<uint32_t, std::vector<uint8_t>>;

// The bytes of each object, of a stream whose chunks are in order.
Streams take_apart(Input stream) {
  Streams streams;
  while (stream.size() > sizeof(ChunkHeader)) {
    ChunkHeader header;
    std::memcpy(&header, stream.data(), sizeof header);
    stream = stream.subspan(sizeof header);
    const Input chunk = stream.first(std::min<size_t>(header.bytes, stream.size()));
    stream = stream.subspan(chunk.size());
    auto& bytes = streams[header.object];
    bytes.insert(bytes.end(), chunk.begin(), chunk.end());
  }
  return streams;
}

void check_each_alone(Input stream, const Outcome& together, const FrameLimits& limits) {
  if (!together.error.empty()) return;
  for (const auto& [object, bytes] : take_apart(stream)) {
    Outcome alone = parse(bytes, Cuts(0), limits);
    std::vector<Seen> frames;
    for (const Seen& seen : together.frames)
      if (seen.object == object) frames.push_back(seen);
    for (Seen& seen : alone.frames) seen.object = object;
    require(alone.error.empty() && alone.frames == frames, "an object's frames do not depend on the others");
  }
}

// Sends frames whose sizes are the input's over a transport that takes them in pieces.
void check_sender(Source source, Cuts cuts) {
  MemoryTransport transport(cuts);
  MuxSender sender;
  std::map<uint32_t, std::vector<Seen>> expected;
  bool is_pending = false;
  while (!source.empty()) {
    const uint32_t object = source.byte() % kStreams;
    const std::vector<std::byte> head = copy_bytes(source.take(source.byte()));
    const std::vector<ReceivedAttachment> bodies = take_attachments(source);
    Seen seen{object, source.byte(), source.number<uint32_t>(), head, {}};
    OutgoingFrame frame;
    frame.prefix.kind = seen.kind;
    frame.prefix.id = seen.id;
    frame.prefix.head = head.size();
    frame.prefix.attachments = static_cast<uint32_t>(bodies.size());
    frame.head = head;
    for (const ReceivedAttachment& body : bodies) {
      frame.places.push_back({body.bytes, 0, 0, AttachmentPlace::kInStream});
      frame.bodies.emplace_back(body.block.data(), body.bytes);
      seen.bodies.emplace_back(body.block.data(), body.block.data() + body.bytes);
    }
    expected[object].push_back(std::move(seen));
    is_pending = sender.send(transport, object, std::move(frame)) == MuxSender::Sent::kPending;
    require(is_pending == sender.pending(), "a sender says whether something waits");
  }
  while (sender.pending()) sender.flush(transport, 100000);
  require(sender.queued_bytes() == 0, "nothing waits at the end");
  transport.end_sending();
  const Outcome got = read_all(transport, {});
  require(got.error.empty() && !got.is_mid_frame, "what was sent can be read");
  std::map<uint32_t, std::vector<Seen>> received;
  for (const Seen& seen : got.frames) received[seen.object].push_back(seen);
  require(received == expected, "what was sent arrives, in order");
}

}  // namespace

void frames(Input data) {
  Source source(data);
  const uint8_t mode = source.byte();
  const Cuts whole(0), cuts(source.byte());
  const FrameLimits limits = mode & 4 ? internal::kStrangerLimits : kLimits;
  if ((mode & 3) == 3) return check_sender(source, cuts);
  const Input stream = source.rest();
  if (mode & 1) {
    require(parse(stream, whole, limits) == parse(stream, cuts, limits), "pieces give the frames that the whole gives");
  } else {
    const Outcome together = read_input(stream, whole, limits);
    require(together == read_input(stream, cuts, limits), "pieces give the frames that the whole gives");
    check_each_alone(stream, together, limits);
  }
}

}  // namespace parl::fuzz
