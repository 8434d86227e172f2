#include "parl/remote/internal/connection.h"

#include <sys/epoll.h>

#include <algorithm>

#include "parl/core/check.h"
#include "parl/remote/internal/address.h"

namespace parl::internal {
namespace {

constexpr size_t kStrangerStreams = 1;
constexpr auto kFinish = std::chrono::seconds(1);

AttachmentPlace in_stream(const Attachment& attachment) {
  AttachmentPlace place;
  place.bytes = attachment.bytes;
  return place;
}

}  // namespace

Connection::Connection(IoLoop& loop, std::unique_ptr<Transport> transport, std::shared_ptr<Listener> listener)
    : loop_(loop),
      transport_(std::move(transport)),
      peer_(peer_name(transport_->fd())),
      reader_(kStrangerLimits, kStrangerStreams),
      listener_(std::move(listener)) {}

std::shared_ptr<Connection> Connection::start(IoLoop& loop, std::unique_ptr<Transport> transport,
                                              std::shared_ptr<Listener> listener) {
  std::shared_ptr<Connection> self(new Connection(loop, std::move(transport), std::move(listener)));
  self->watch_ =
      loop.watch(self->transport_->fd(), EPOLLIN | EPOLLOUT, [self](uint32_t events) { self->on_events(events); });
  return self;
}

// A handler may be called before start() has noted its number; being level triggered, it is called again.
void Connection::on_events(uint32_t events) {
  if (!watch_ || is_ended_) return;
  if (!is_open_) return shake_hands();
  if (events & EPOLLOUT) on_writable();
  if (is_ended_) return;
  if (events & ~static_cast<uint32_t>(EPOLLOUT)) read_frames();
}

void Connection::shake_hands() {
  switch (transport_->handshake()) {
    case Transport::Step::kWantsRead:
      return loop_.change(watch_, EPOLLIN);
    case Transport::Step::kWantsWrite:
      return loop_.change(watch_, EPOLLIN | EPOLLOUT);
    case Transport::Step::kFailed:
      return do_end(transport_->error());
    case Transport::Step::kDone:
      break;
  }
  try {
    binding_ = transport_->binding();
  } catch (const std::exception& error) {
    return do_end(error.what());
  }
  is_open_ = true;
  loop_.change(watch_, EPOLLIN);
  if (const std::string who = transport_->identity(); !who.empty()) peer_ += " (" + who + ")";
  const auto keep = listener_;
  keep->on_open(shared_from_this());
  if (!is_ended_) read_frames();
}

void Connection::trust(FrameLimits limits, size_t streams, Milliseconds beat, Milliseconds patience) {
  reader_.set_limits(limits, streams);
  beat_ = beat;
  patience_ = patience;
  heard_ = spoke_ = std::chrono::steady_clock::now();
  set_timer();
}

uint32_t Connection::interest_locked() const {
  return wants_write_ ? static_cast<uint32_t>(EPOLLIN | EPOLLOUT) : static_cast<uint32_t>(EPOLLIN);
}

void Connection::send(uint32_t object, uint8_t kind, uint64_t id, const Writer& writer, const MuxSender::Keep& keep) {
  OutgoingFrame frame = pack_frame(kind, id, writer, in_stream);
  std::lock_guard lock(send_mutex_);
  if (send_closed_) return;
  try {
    if (sender_.send(*transport_, object, std::move(frame), keep) == MuxSender::Sent::kClosed) send_closed_ = true;
  } catch (...) {  // no memory in the middle of a frame: what follows could not be understood
    send_closed_ = true;
    end("could not be told more, for want of memory");
    throw;
  }
  if (send_closed_) end_after_failed_write();
  if (sender_.pending() && !wants_write_) {
    wants_write_ = true;
    loop_.change(watch_, interest_locked());
  }
}

// Under send_mutex_. What the peer has still said is read first. A connection that finishes waits for the peer anyway.
void Connection::end_after_failed_write() {
  sent_some_.notify_all();
  loop_.post([self = shared_from_this()] { self->read_rest(); });
}

void Connection::read_rest() {
  if (is_ended_ || is_finishing_) return;
  if (read_frames() && !is_ended_) return loop_.post([self = shared_from_this()] { self->read_rest(); });
  if (!is_ended_ && !is_finishing_) do_end(transport_->error());
}

void Connection::wait_sent(uint32_t object, uint64_t bytes) {
  std::unique_lock lock(send_mutex_);
  sent_some_.wait(lock, [&] { return send_closed_ || sender_.queued_bytes(object) <= bytes; });
}

uint64_t Connection::queued_bytes(uint32_t object) {
  std::lock_guard lock(send_mutex_);
  return sender_.queued_bytes(object);
}

uint64_t Connection::bytes_sent() {
  std::lock_guard lock(send_mutex_);
  return sender_.bytes_sent();
}

void Connection::on_writable() {
  bool is_empty;
  {
    std::lock_guard lock(send_mutex_);
    const auto sent = send_closed_ ? MuxSender::Sent::kClosed : sender_.flush(*transport_);
    if (sent == MuxSender::Sent::kClosed) send_closed_ = true;
    if (sent == MuxSender::Sent::kClosed) end_after_failed_write();
    if (sent != MuxSender::Sent::kPending) {
      wants_write_ = false;
      loop_.change(watch_, interest_locked());
    }
    is_empty = sent == MuxSender::Sent::kAll;
    sent_some_.notify_all();
  }
  if (is_empty && is_finishing_ && closes_first_) transport_->end_sending();
}

// Reads until the socket is drained or the turn is over. True: something came.
bool Connection::read_frames() {
  const uint64_t before = reader_.bytes_received();
  MuxReader::Got got = MuxReader::Got::kNothing;
  std::string garbage;
  try {
    uint32_t object = 0;
    Frame frame;
    while (!is_ended_ && (got = reader_.next(*transport_, object, frame)) == MuxReader::Got::kFrame)
      handle(object, std::move(frame));
  } catch (const std::exception& e) {
    garbage = e.what();
  }
  const bool is_news = reader_.bytes_received() != before;
  if (is_ended_) return is_news;
  if (is_news) {
    heard_ = std::chrono::steady_clock::now();
    received_.store(reader_.bytes_received(), std::memory_order_relaxed);
  }
  if (!garbage.empty()) {
    do_end("sent what cannot be understood and is cut off: " + garbage);
  } else if (got == MuxReader::Got::kClosed) {
    do_end(is_finishing_ ? why_finished_ : transport_->error());
  } else if (got == MuxReader::Got::kTurnOver && transport_->has_buffered()) {
    loop_.post([self = shared_from_this()] {  // the socket will not say so
      if (!self->is_ended_) self->read_frames();
    });
  }
  return is_news;
}

void Connection::handle(uint32_t object, Frame frame) {
  if (is_finishing_) return;
  if (object == 0 && frame.kind == static_cast<uint8_t>(ControlKind::kBeat)) return;
  const auto keep = listener_;
  keep->on_frame(object, std::move(frame));
}

void Connection::set_timer() {
  const Time due = std::min(spoke_ + beat_, heard_ + patience_);
  loop_.cancel(timer_);
  timer_ = loop_.at(due, [self = shared_from_this(), due] { self->on_timer(due); });
}

void Connection::on_timer(Time due) {
  if (is_ended_) return;
  timer_ = 0;
  const Time now = std::chrono::steady_clock::now();
  try {
    judge_later(due);
    if (is_ended_) return;
    // The kernel's own sign of life rests while something is unacknowledged.
    if (is_unanswered(transport_->fd(), kKernelPatience)) {
      const auto seconds = std::chrono::seconds(kKernelPatience).count();
      return do_end(fmt::format("gave no answer for {} s, not even its machine's kernel", seconds));
    }
    if (now >= spoke_ + beat_) say_alive(now);
    set_timer();
  } catch (const std::bad_alloc&) {  // send() has ended it
  }
}

// The peer is silent for too long only if this loop was on time and its socket holds nothing.
void Connection::judge_later(Time due) {
  const Time now = std::chrono::steady_clock::now();
  if (now - due > beat_ / 2) heard_ = now;
  if (now - heard_ < patience_) return;
  if (read_frames() || is_ended_) return;
  const double seconds = std::chrono::duration<double>(patience_).count();
  do_end(fmt::format("gave no sign of life for {:.3g} s", seconds));
}

void Connection::say_alive(Time now) {
  spoke_ = now;
  const auto keep = listener_;
  keep->on_beat();
  {
    std::lock_guard lock(send_mutex_);
    const bool has_spoken = sender_.bytes_sent() != sent_before_;
    sent_before_ = sender_.bytes_sent();
    if (has_spoken || sender_.pending()) return;
  }
  send(0, static_cast<uint8_t>(ControlKind::kBeat), 0, Writer());
  std::lock_guard lock(send_mutex_);
  sent_before_ = sender_.bytes_sent();
}

void Connection::end(std::string why) {
  loop_.post([self = shared_from_this(), why = std::move(why)] { self->do_end(why); });
}

void Connection::finish(std::string why) {
  if (loop_.on_loop_thread()) return do_finish(std::move(why), true);  // before the peer's end is read
  loop_.post([self = shared_from_this(), why = std::move(why)] { self->do_finish(why, true); });
}

void Connection::await_end(std::string why) {
  loop_.post([self = shared_from_this(), why = std::move(why)] { self->do_finish(why, false); });
}

void Connection::do_finish(std::string why, bool closes_first) {
  if (is_ended_ || is_finishing_) return;
  is_finishing_ = true;
  closes_first_ = closes_first;
  why_finished_ = std::move(why);
  set_finish_timer();
  std::lock_guard lock(send_mutex_);
  finish_was_pending_ = sender_.pending();
  sent_at_finish_ = sender_.bytes_sent();
  if (closes_first_ && !sender_.pending()) transport_->end_sending();
}

void Connection::set_finish_timer() {
  finish_timer_ =
      loop_.at(std::chrono::steady_clock::now() + kFinish, [self = shared_from_this()] { self->on_finish_timer(); });
}

// A slow link gets its time for what was accepted, as long as it takes some.
void Connection::on_finish_timer() {
  if (is_ended_) return;
  bool goes_on;
  {
    std::lock_guard lock(send_mutex_);
    goes_on = !send_closed_ && finish_was_pending_ && sender_.bytes_sent() > sent_at_finish_;
    finish_was_pending_ = sender_.pending();
    sent_at_finish_ = sender_.bytes_sent();
  }
  if (goes_on) return set_finish_timer();
  do_end(why_finished_);
}

void Connection::do_end(const std::string& why) {
  if (is_ended_) return;
  is_ended_ = true;
  const auto self = shared_from_this();  // the loop's handler may be the last that holds us
  loop_.unwatch(watch_);
  loop_.cancel(timer_);
  loop_.cancel(finish_timer_);
  {
    std::lock_guard lock(send_mutex_);
    send_closed_ = true;
    sender_ = MuxSender();
    transport_.reset();
    sent_some_.notify_all();
  }
  const std::shared_ptr<Listener> listener = std::move(listener_);
  listener->on_end(why);
}

}  // namespace parl::internal
