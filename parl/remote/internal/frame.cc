#include "parl/remote/internal/frame.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "parl/core/check.h"
#include "parl/remote/internal/growing_block.h"

namespace parl::internal {
namespace {

constexpr size_t kScratch = 32 * 1024;
constexpr int kMaxDescriptors = 8;
constexpr size_t kTurn = size_t{8} << 20;  // bytes for one connection before the next has its turn

}  // namespace

void check_frame_size(const Writer& writer, const FrameLimits& limits) {
  if (writer.head().size() > limits.head)
    throw WireError(fmt::format(
        "{} bytes of small values, at most {} can travel at once; put them into arrays or vectors of numbers",
        writer.head().size(), limits.head));
  if (writer.attachments().size() > limits.attachments)
    throw WireError(
        fmt::format("{} large arrays, at most {} can travel at once", writer.attachments().size(), limits.attachments));
  if (writer.total_bytes() > limits.total)
    throw WireError(fmt::format("{} bytes, at most {} can travel at once", writer.total_bytes(), limits.total));
}

FrameParser::FrameParser(FrameLimits limits, Arrive arrive, FrameSteps steps)
    : limits_(limits), arrive_(std::move(arrive)), steps_(steps) {
  begin_prefix();
}

// The next part has so many bytes; the first of them, or all, get their memory now.
void FrameParser::expect(Stage stage, size_t bytes, size_t at_once) {
  stage_ = stage;
  wanted_ = bytes;
  filled_ = 0;
  make_room(std::min(bytes, at_once));
}

// Memory for the first `bytes` of the part. For want of it the rest is dropped as it comes.
void FrameParser::make_room(size_t bytes) {
  room_ = bytes;
  try {
    target_ = take_memory(bytes);
  } catch (const std::bad_alloc&) {
    if (stage_ == Stage::kTable) throw;
    drop_part();
  }
}

std::byte* FrameParser::take_memory(size_t bytes) {
  if (stage_ == Stage::kPrefix) return reinterpret_cast<std::byte*>(&prefix_);
  if (stage_ == Stage::kTable) {
    frame_.places.resize(bytes / sizeof(AttachmentPlace));
    return reinterpret_cast<std::byte*>(frame_.places.data());
  }
  if (stage_ == Stage::kHead) {
    frame_.head.resize(bytes);
    return frame_.head.data();
  }
  ArrayBlock& block = frame_.attachments[body_].block;
  if (filled_ > 0) {
    grow_block(block, bytes);
  } else {
    block = bytes < wanted_ ? map_block(bytes) : ArrayBlock::allocate(bytes);
  }
  return block.data();
}

void FrameParser::drop_part() {
  frame_.out_of_memory = true;
  target_ = nullptr;
  room_ = wanted_;
  if (stage_ == Stage::kHead) {
    frame_.head = {};
  } else {
    frame_.attachments[body_].block = {};
  }
}

void FrameParser::consume(std::span<const std::byte>& bytes) {
  const size_t count = std::min(bytes.size(), room_ - filled_);
  if (count && target_) std::memcpy(target_ + filled_, bytes.data(), count);
  bytes = bytes.subspan(count);
  filled_ += count;
}

void FrameParser::begin_prefix() { expect(Stage::kPrefix, sizeof prefix_, sizeof prefix_); }

void FrameParser::begin_table() {
  if (prefix_.magic != FramePrefix::kMagic)
    throw WireError("a peer speaks another protocol (the frame's mark is missing)");
  if (prefix_.attachments > limits_.attachments)
    throw WireError(
        fmt::format("a frame with {} attachments, at most {} are allowed", prefix_.attachments, limits_.attachments));
  if (prefix_.head > limits_.head)
    throw WireError(fmt::format("a frame with a head of {} bytes, at most {} are allowed", prefix_.head, limits_.head));
  frame_.kind = prefix_.kind;
  frame_.id = prefix_.id;
  expect(Stage::kTable, prefix_.attachments * sizeof(AttachmentPlace), steps_.table * sizeof(AttachmentPlace));
}

void FrameParser::begin_head() {
  uint64_t total = prefix_.head;
  for (const AttachmentPlace& place : frame_.places) {
    if (place.bytes > limits_.total - std::min(total, limits_.total))
      throw WireError(fmt::format("a frame above the limit of {} bytes", limits_.total));
    total += place.bytes;
  }
  frame_.attachments.resize(prefix_.attachments);
  body_ = 0;
  expect(Stage::kHead, prefix_.head, steps_.head);
}

// Prepares for the next body in the stream, from body_ on. False: all attachments are there.
bool FrameParser::next_body() {
  for (; body_ < frame_.places.size(); ++body_) {
    const AttachmentPlace& place = frame_.places[body_];
    ReceivedAttachment& attachment = frame_.attachments[body_];
    attachment.bytes = place.bytes;
    if ((place.where & AttachmentPlace::kPlaceMask) != AttachmentPlace::kInStream) {
      if (arrive_) attachment.block = arrive_(place);
      if (!attachment.block) throw WireError("a frame names shared memory that holds nothing for it");
      continue;
    }
    if (place.bytes == 0) continue;
    expect(Stage::kBody, place.bytes, steps_.body);
    return true;
  }
  return false;
}

// The present part is whole. False: that was the frame's last.
bool FrameParser::next_part() {
  switch (stage_) {
    case Stage::kPrefix:
      begin_table();
      return true;
    case Stage::kTable:
      begin_head();
      return true;
    case Stage::kBody:
      ++body_;
      break;
    case Stage::kHead:
      break;
  }
  return next_body();
}

bool FrameParser::parse(std::span<const std::byte>& bytes, Frame& out) {
  for (;;) {
    consume(bytes);
    if (filled_ < room_) return false;
    if (filled_ < wanted_) {
      make_room(wanted_ - filled_ < filled_ ? wanted_ : 2 * filled_);
    } else if (!next_part()) {
      out = std::move(frame_);
      frame_ = Frame();
      begin_prefix();
      return true;
    }
  }
}

FrameReader::FrameReader(FrameLimits limits, Arrive arrive, bool accept_descriptors)
    : parser_(limits, std::move(arrive)), accept_descriptors_(accept_descriptors) {}

// Moves buffered bytes to where they belong.
bool FrameReader::parse(Frame& out) {
  std::span<const std::byte> bytes(scratch_.get() + begin_, end_ - begin_);
  const bool is_whole = parser_.parse(bytes, out);
  begin_ = end_ - bytes.size();
  if (begin_ == end_) begin_ = end_ = 0;
  return is_whole;
}

FrameReader::Got FrameReader::next(int fd, Frame& out, bool wait) {
  if (!scratch_) scratch_.reset(new std::byte[kScratch]);
  const uint64_t turn_ends = received_ + kTurn;
  while (!parse(out)) {
    if (!wait && received_ >= turn_ends) return Got::kNothing;
    // Here the scratch buffer is empty: what was in it has been moved.
    std::array<iovec, 2> pieces;
    size_t count = 0;
    std::span<std::byte> direct = parser_.direct();
    // One call takes more than the socket holds when the peer goes on sending.
    if (!wait) direct = direct.first(std::min<uint64_t>(direct.size(), turn_ends - received_));
    const bool to_target = direct.size() > kScratch / 8;
    if (to_target) pieces[count++] = {direct.data(), direct.size()};
    pieces[count++] = {scratch_.get(), kScratch};
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    if (accept_descriptors_) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
    }
    const ssize_t got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Got::kNothing;
    if (got <= 0) return Got::kClosed;
    if (accept_descriptors_) store_descriptors(message);
    received_ += static_cast<uint64_t>(got);
    const size_t to_direct = to_target ? std::min(direct.size(), static_cast<size_t>(got)) : 0;
    parser_.filled(to_direct);
    begin_ = 0;
    end_ = static_cast<size_t>(got) - to_direct;
  }
  return Got::kFrame;
}

void FrameReader::store_descriptors(const msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(const_cast<msghdr*>(&message), c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      descriptors_.emplace_back(fd);
    }
  }
  if (message.msg_flags & MSG_CTRUNC)
    throw WireError("a descriptor was lost in transit (is the descriptor limit reached?)");
}

UniqueFd FrameReader::take_descriptor() {
  if (descriptors_.empty()) return {};
  UniqueFd fd = std::move(descriptors_.front());
  descriptors_.pop_front();
  return fd;
}

uint64_t OutgoingFrame::bytes() const {
  uint64_t sum = sizeof prefix + places.size() * sizeof(AttachmentPlace) + head.size();
  for (const auto& body : bodies) sum += body.size();
  return sum;
}

size_t OutgoingFrame::gather(uint64_t from, size_t bytes, std::array<iovec, kMaxPieces>& pieces, size_t& count) const {
  size_t covered = 0;
  const auto add = [&](const void* data, size_t size) {
    if (from >= size) {
      from -= size;
      return;
    }
    if (count == kMaxPieces || covered == bytes) return;
    const size_t length = std::min<size_t>(size - from, bytes - covered);
    pieces[count++] = {const_cast<char*>(static_cast<const char*>(data)) + from, length};
    covered += length;
    from = 0;
  };
  add(&prefix, sizeof prefix);
  add(places.data(), places.size() * sizeof(AttachmentPlace));
  add(head.data(), head.size());
  for (const auto& body : bodies) {
    if (count == kMaxPieces || covered == bytes) break;
    add(body.data(), body.size());
  }
  return covered;
}

void OutgoingFrame::keep_copy() {
  auto copy = std::make_shared<std::vector<std::vector<std::byte>>>();
  copy->reserve(1 + bodies.size());
  copy->emplace_back(head.begin(), head.end());
  for (const auto& body : bodies) copy->emplace_back(body.begin(), body.end());
  head = copy->front();
  for (size_t i = 0; i < bodies.size(); ++i) bodies[i] = (*copy)[i + 1];
  keep = std::move(copy);
}

// Sends from byte done_ of `frame` on. True: all of it has gone.
bool FrameSender::advance(int fd, OutgoingFrame& frame, size_t& budget, bool& closed) {
  for (;;) {
    std::array<iovec, OutgoingFrame::kMaxPieces> pieces;
    size_t count = 0;
    const size_t offered = frame.gather(done_, budget, pieces, count);
    if (count == 0) return done_ == frame.bytes();

    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (frame.descriptor) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int));
      const int passed = frame.descriptor.get();
      std::memcpy(CMSG_DATA(c), &passed, sizeof passed);
    }
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      closed = errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != ETOOMANYREFS;
      return false;
    }
    frame.descriptor.reset();
    done_ += static_cast<uint64_t>(sent);
    budget -= std::min(budget, static_cast<size_t>(sent));
    if (done_ == frame.bytes()) return true;
    if (static_cast<size_t>(sent) < offered || budget == 0) return false;
  }
}

FrameSender::Sent FrameSender::send(int fd, OutgoingFrame frame,
                                    const std::function<std::shared_ptr<const void>()>& keep) {
  if (queue_.empty()) {
    size_t budget = kTurn;
    bool closed = false;
    done_ = 0;
    if (advance(fd, frame, budget, closed)) return Sent::kAll;
    if (closed) return Sent::kClosed;
  }
  if (keep) {
    frame.keep = keep();
  } else {
    frame.keep_copy();
  }
  queued_ += frame.bytes();
  queue_.push_back(std::move(frame));
  return Sent::kPending;
}

FrameSender::Sent FrameSender::flush(int fd, size_t budget) {
  while (!queue_.empty()) {
    if (budget == 0) return Sent::kPending;
    bool closed = false;
    if (!advance(fd, queue_.front(), budget, closed)) return closed ? Sent::kClosed : Sent::kPending;
    queued_ -= queue_.front().bytes();
    queue_.pop_front();
    done_ = 0;
  }
  return Sent::kAll;
}

}  // namespace parl::internal
