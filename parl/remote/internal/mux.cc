#include "parl/remote/internal/mux.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "parl/core/check.h"

namespace parl::internal {
namespace {

constexpr size_t kScratch = 32 * 1024;
constexpr size_t kDirect = 4096;              // bodies with more than this to come are read in place
constexpr size_t kTurn = size_t{4} << 20;     // bytes of one connection before the next has its turn
constexpr size_t kSendNow = size_t{1} << 20;  // what a caller sends by itself; the rest is the I/O thread's

}  // namespace

MuxReader::MuxReader(FrameLimits limits, size_t streams) : limits_(limits), max_streams_(streams) {}

void MuxReader::set_limits(FrameLimits limits, size_t streams) {
  limits_ = limits;
  max_streams_ = streams;
  for (auto& [object, parser] : streams_) parser->set_limits(limits);
}

// False: the header is not whole yet.
bool MuxReader::take_header() {
  const size_t count = std::min(end_ - begin_, sizeof header_ - header_filled_);
  std::memcpy(reinterpret_cast<std::byte*>(&header_) + header_filled_, scratch_.get() + begin_, count);
  begin_ += count;
  header_filled_ += count;
  if (header_filled_ < sizeof header_) return false;
  header_filled_ = 0;
  begin_chunk();
  return true;
}

void MuxReader::begin_chunk() {
  if (header_.mark != ChunkHeader::kMark) throw WireError("a peer speaks another protocol (a chunk's mark is missing)");
  if (header_.bytes == 0 || header_.bytes > kMaxChunk || header_.pad != 0)
    throw WireError(fmt::format("a chunk of {} bytes, 1 to {} are allowed", header_.bytes, kMaxChunk));
  chunk_left_ = header_.bytes;
  auto it = streams_.find(header_.object);
  if (it == streams_.end()) {
    if (streams_.size() >= max_streams_)
      throw WireError(fmt::format("more than {} objects send at once", max_streams_));
    if (spare_) {
      spare_.key() = header_.object;
      it = streams_.insert(std::move(spare_)).position;
      it->second->set_limits(limits_);
    } else {
      it = streams_.emplace(header_.object, std::make_unique<FrameParser>(limits_)).first;
    }
  }
  current_ = it->second.get();
}

// After a chunk: a parser that is not in the middle of anything is put aside.
void MuxReader::end_frame() {
  if (chunk_left_ > 0 || current_->mid_frame()) return;
  spare_ = streams_.extract(header_.object);
  current_ = nullptr;
}

// A frame from what is buffered. False: none is whole.
bool MuxReader::parse(uint32_t& object, Frame& out) {
  while (begin_ < end_ || is_filled_) {
    if (chunk_left_ == 0 && !is_filled_) {
      if (!take_header()) break;
      continue;
    }
    std::span<const std::byte> bytes(scratch_.get() + begin_, is_filled_ ? 0 : std::min(end_ - begin_, chunk_left_));
    const size_t before = bytes.size();
    is_filled_ = false;
    const bool is_whole = current_->parse(bytes, out);
    begin_ += before - bytes.size();
    chunk_left_ -= before - bytes.size();
    if (is_whole) object = header_.object;
    end_frame();
    if (is_whole) return true;
  }
  if (begin_ == end_) begin_ = end_ = 0;
  return false;
}

// Reads once, into the place where a body shall be and into the scratch buffer, which is empty.
ssize_t MuxReader::fill(Transport& transport) {
  std::array<iovec, 2> pieces;
  int count = 0;
  size_t direct = 0;
  if (chunk_left_ > 0) {
    const std::span<std::byte> target = current_->direct();
    direct = std::min(target.size(), chunk_left_);
    if (direct < kDirect) direct = 0;
    if (direct) pieces[count++] = {target.data(), direct};
  }
  pieces[count++] = {scratch_.get(), direct ? kDirect : kScratch};
  const ssize_t got = transport.read(pieces.data(), count);
  if (got <= 0) return got;
  received_ += static_cast<uint64_t>(got);
  const size_t in_place = std::min(direct, static_cast<size_t>(got));
  if (in_place) {
    current_->filled(in_place);
    chunk_left_ -= in_place;
    is_filled_ = true;
  }
  begin_ = 0;
  end_ = static_cast<size_t>(got) - in_place;
  return got;
}

MuxReader::Got MuxReader::next(Transport& transport, uint32_t& object, Frame& out) {
  if (!scratch_) scratch_.reset(new std::byte[kScratch]);
  if (!in_turn_) turn_ends_ = received_ + kTurn;
  in_turn_ = true;
  while (!parse(object, out)) {
    if (received_ >= turn_ends_) {
      in_turn_ = false;
      return Got::kTurnOver;
    }
    const ssize_t got = fill(transport);
    if (got > 0) continue;
    in_turn_ = false;
    return got == Transport::kNotNow ? Got::kNothing : Got::kClosed;
  }
  return Got::kFrame;
}

// Sends one chunk, or what is left of the one under way, from byte `done` of the frame on.
MuxSender::Pushed MuxSender::push_chunk(Transport& transport, uint32_t object, const OutgoingFrame& frame,
                                        uint64_t& done) {
  const uint64_t total = frame.bytes();
  if (chunk_left_ == 0) {
    chunk_left_ = static_cast<size_t>(std::min<uint64_t>(total - done, kMaxChunk));
    header_ = ChunkHeader();
    header_.object = object;
    header_.bytes = static_cast<uint32_t>(chunk_left_);
    header_left_ = sizeof header_;
  }
  while (chunk_left_ > 0) {
    std::array<iovec, OutgoingFrame::kMaxPieces> pieces;
    size_t count = 0;
    if (header_left_ > 0)
      pieces[count++] = {reinterpret_cast<char*>(&header_) + sizeof header_ - header_left_, header_left_};
    frame.gather(done, chunk_left_, pieces, count);
    const ssize_t got = transport.write(pieces.data(), static_cast<int>(count));
    if (got == Transport::kNotNow) return Pushed::kNotNow;
    if (got == Transport::kClosed) return Pushed::kClosed;
    sent_ += static_cast<uint64_t>(got);
    const size_t of_header = std::min(static_cast<size_t>(got), header_left_);
    header_left_ -= of_header;
    const size_t of_chunk = static_cast<size_t>(got) - of_header;
    chunk_left_ -= of_chunk;
    done += of_chunk;
  }
  return done == total ? Pushed::kFrame : Pushed::kChunk;
}

void MuxSender::enqueue(uint32_t object, OutgoingFrame frame, uint64_t done, const Keep& keep) {
  if (keep) {
    frame.keep = keep();
  } else {
    frame.keep_copy();
  }
  auto stream = std::find_if(ring_.begin(), ring_.end(), [&](const Stream& s) { return s.object == object; });
  if (stream == ring_.end()) stream = ring_.insert(ring_.end(), Stream{object, {}, done});
  queued_ += frame.bytes() - done;
  stream->queued += frame.bytes() - done;
  stream->frames.push_back(std::move(frame));
}

uint64_t MuxSender::queued_bytes(uint32_t object) const {
  const auto stream = std::find_if(ring_.begin(), ring_.end(), [&](const Stream& s) { return s.object == object; });
  return stream == ring_.end() ? 0 : stream->queued;
}

MuxSender::Sent MuxSender::send(Transport& transport, uint32_t object, OutgoingFrame frame, const Keep& keep) {
  uint64_t done = 0;
  if (ring_.empty()) {
    for (auto pushed = Pushed::kChunk; pushed == Pushed::kChunk && done < kSendNow;) {
      pushed = push_chunk(transport, object, frame, done);
      if (pushed == Pushed::kFrame) return Sent::kAll;
      if (pushed == Pushed::kClosed) return Sent::kClosed;
      if (pushed == Pushed::kNotNow) break;
    }
  }
  enqueue(object, std::move(frame), done, keep);
  return Sent::kPending;
}

MuxSender::Sent MuxSender::flush(Transport& transport, size_t budget) {
  const uint64_t until = sent_ + budget;
  while (!ring_.empty()) {
    if (sent_ >= until) return Sent::kPending;
    Stream& stream = ring_.front();
    const uint64_t before = stream.done;
    const auto pushed = push_chunk(transport, stream.object, stream.frames.front(), stream.done);
    queued_ -= stream.done - before;
    stream.queued -= stream.done - before;
    if (pushed == Pushed::kNotNow) return Sent::kPending;
    if (pushed == Pushed::kClosed) return Sent::kClosed;
    if (pushed == Pushed::kFrame) {
      stream.frames.pop_front();
      stream.done = 0;
    }
    if (stream.frames.empty()) {
      ring_.pop_front();
    } else {
      ring_.splice(ring_.end(), ring_, ring_.begin());
    }
  }
  return Sent::kAll;
}

}  // namespace parl::internal
