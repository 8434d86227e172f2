#include "parl/remote/internal/process_link.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/remote/internal/class_info.h"
#include "parl/wire/wire.h"

namespace parl::internal {
namespace {

constexpr auto kTermToKill = std::chrono::seconds(5);
constexpr auto kClosedToKill = std::chrono::milliseconds(500);

std::string log_prefix(const std::string& name) { return "[" + name + "] "; }

}  // namespace

ProcessLink::ProcessLink(IoLoop& loop, Settings settings)
    : loop_(loop),
      on_collected_(std::move(settings.on_collected)),
      child_(spawn_self(settings.spawn)),
      log_(log_prefix(settings.name), settings.log_file, [](const std::string& line) { log().info("{}", line); }),
      slabs_(settings.slab_bytes),
      reader_(
          {}, [this](const AttachmentPlace& place) { return slabs_.arrive(place); }, true) {}

std::shared_ptr<ProcessLink> ProcessLink::start(IoLoop& loop, Settings settings) {
  std::shared_ptr<ProcessLink> link(new ProcessLink(loop, std::move(settings)));
  try {
    link->watch();
  } catch (...) {
    loop.unwatch(link->socket_watch_);
    loop.unwatch(link->output_watch_);
    loop.unwatch(link->pidfd_watch_);
    link->kill();
    throw;
  }
  return link;
}

ProcessLink::~ProcessLink() {
  if (!ended_)
    ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(child_.pidfd.get()), nullptr, WEXITED);  // after kill()
}

void ProcessLink::watch() {
  auto self = shared_from_this();
  output_watch_ = loop_.watch(child_.output.get(), EPOLLIN, [self](uint32_t) { self->on_output(); });
  socket_watch_ = loop_.watch(child_.socket.get(), EPOLLIN, [self](uint32_t events) { self->on_socket(events); });
  pidfd_watch_ = loop_.watch(child_.pidfd.get(), EPOLLIN, [self](uint32_t) { self->on_pidfd(); });
}

ProcessLink::Hello ProcessLink::wait_hello(Time deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return hello_ || ended_; });
  return ended_ ? Hello::kEnded : hello_ ? Hello::kArrived : Hello::kTimeout;
}

void ProcessLink::attach(std::shared_ptr<Listener> listener, const std::string& name, std::string log_file) {
  log_.rename(log_prefix(name), std::move(log_file));
  bool too_late;
  {
    std::lock_guard lock(mutex_);
    too_late = ended_;
    if (!too_late) listener_ = listener;
  }
  if (too_late) listener->on_end();
}

void ProcessLink::drop_listener() {
  std::shared_ptr<Listener> dropped;  // destroyed outside the lock
  std::lock_guard lock(mutex_);
  dropped.swap(listener_);
}

std::vector<AttachmentPlace> ProcessLink::send(FrameKind kind, uint64_t id, const Writer& writer, bool may_take,
                                               const Keep& keep) {
  OutgoingFrame frame = slabs_.pack(static_cast<uint8_t>(kind), id, writer, may_take);
  std::vector<AttachmentPlace> places = frame.places;
  std::lock_guard lock(send_mutex_);
  if (send_closed_) return places;  // its end is on the way to the listener
  const int fd = child_.socket.get();
  const bool was_pending = sender_.pending();
  for (OutgoingFrame& slab : slabs_.announce(static_cast<uint8_t>(FrameKind::kSlab))) sender_.send(fd, std::move(slab));
  if (sender_.send(fd, std::move(frame), keep) == FrameSender::Sent::kClosed) send_closed_ = true;
  if (sender_.pending() && !was_pending) loop_.change(socket_watch_, EPOLLIN | EPOLLOUT);
  return places;
}

// A handler may be called before watch() has noted its number; being level triggered, it is called again.
void ProcessLink::on_socket(uint32_t events) {
  if (!pidfd_watch_) return;
  if (events & EPOLLOUT) {
    std::lock_guard lock(send_mutex_);
    const auto sent = sender_.flush(child_.socket.get());
    if (sent == FrameSender::Sent::kClosed) send_closed_ = true;
    if (sent != FrameSender::Sent::kPending) loop_.change(socket_watch_, EPOLLIN);
  }
  if (events & ~static_cast<uint32_t>(EPOLLOUT)) read_frames(false);
}

// One system call for all frames that came together; level triggering brings us back for more.
void ProcessLink::read_frames(bool all) {
  if (socket_closed_) return;
  try {
    for (;;) {
      Frame frame;
      const auto got = reader_.next(child_.socket.get(), frame, false);
      if (got == FrameReader::Got::kNothing) return;
      if (got == FrameReader::Got::kClosed) break;
      handle(std::move(frame));
      while (reader_.next_buffered(frame)) handle(std::move(frame));
      if (!all) return;
    }
  } catch (const std::exception& e) {
    return on_garbage(e.what());
  }
  socket_closed_ = true;
  loop_.unwatch(socket_watch_);
  std::lock_guard lock(mutex_);
  if (!kill_timer_) kill_at(std::chrono::steady_clock::now() + kClosedToKill);
}

void ProcessLink::handle(Frame frame) {
  if (frame.kind == static_cast<uint8_t>(FrameKind::kSlab)) {
    UniqueFd fd = reader_.take_descriptor();
    PARL_CHECK(fd, "a slab was announced without its descriptor");
    return slabs_.add_peer_slab(std::move(fd));
  }
  if (frame.kind == static_cast<uint8_t>(FrameKind::kHello)) {
    Reader reader = frame.reader();
    const auto hello = wire::load<internal::Hello>(reader);
    PARL_CHECK(hello.protocol == kProtocolVersion, "the worker speaks protocol {}, this program {}", hello.protocol,
               kProtocolVersion);
    std::lock_guard lock(mutex_);
    hello_ = true;
    changed_.notify_all();
    return;
  }
  std::shared_ptr<Listener> listener;
  {
    std::lock_guard lock(mutex_);
    listener = listener_;
  }
  if (listener) listener->on_frame(std::move(frame));
}

void ProcessLink::on_garbage(const std::string& what) {
  log().error("worker {}: {}; it is ended", child_.pid, what);
  socket_closed_ = true;
  loop_.unwatch(socket_watch_);
  {
    std::lock_guard lock(mutex_);
    garbage_ = what;
  }
  kill();
}

void ProcessLink::on_output() {
  if (!pidfd_watch_) return;
  if (!log_.pump(child_.output.get())) loop_.unwatch(output_watch_);
}

void ProcessLink::on_pidfd() {
  if (!pidfd_watch_) return;
  ExitStatus status;
  if (reap(child_, status)) finish(status);
}

void ProcessLink::finish(const ExitStatus& status) {
  auto self = shared_from_this();
  read_frames(true);
  log_.pump(child_.output.get());
  log_.finish();
  loop_.unwatch(socket_watch_);
  loop_.unwatch(output_watch_);
  loop_.unwatch(pidfd_watch_);
  {
    std::lock_guard lock(send_mutex_);
    send_closed_ = true;
    child_.socket.reset();
    sender_ = FrameSender();
  }
  child_.output.reset();
  std::shared_ptr<Listener> listener;
  uint64_t timer;
  {
    std::lock_guard lock(mutex_);
    child_.pidfd.reset();
    ended_ = true;
    end_text_ = garbage_.empty() ? status.text : fmt::format("was ended, because {}", garbage_);
    listener.swap(listener_);
    timer = kill_timer_;
  }
  loop_.cancel(timer);
  if (listener) listener->on_end();
  changed_.notify_all();
  if (on_collected_) on_collected_(*this);
}

void ProcessLink::kill_at(Time when) {
  loop_.cancel(kill_timer_);
  kill_timer_ = loop_.at(when, [self = shared_from_this()] { self->kill(); });
}

void ProcessLink::terminate() {
  std::lock_guard lock(mutex_);
  if (ended_ || terminating_) return;
  terminating_ = true;
  send_signal(child_, SIGTERM);
  kill_at(std::chrono::steady_clock::now() + kTermToKill);
}

void ProcessLink::expect_end() {
  drop_listener();
  std::lock_guard lock(mutex_);
  if (!ended_ && !terminating_) kill_at(std::chrono::steady_clock::now() + kTermToKill);
}

void ProcessLink::kill() {
  std::lock_guard lock(mutex_);
  if (!ended_) send_signal(child_, SIGKILL);
}

bool ProcessLink::ended() const {
  std::lock_guard lock(mutex_);
  return ended_;
}

bool ProcessLink::wait_ended(Time deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return ended_; });
}

std::string ProcessLink::end_text() const {
  std::string text;
  {
    std::lock_guard lock(mutex_);
    text = fmt::format("(pid {}) {}", child_.pid, end_text_);
  }
  const std::string lines = log_.last_lines();
  return lines.empty() ? text : text + "; its last lines:\n" + lines;
}

}  // namespace parl::internal
