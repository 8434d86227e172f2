#include "parl/remote/internal/tcp_peer.h"

#include <algorithm>

#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/wire/wire.h"

namespace parl::internal {
namespace {

constexpr size_t kMostClasses = 10000;
constexpr size_t kMostGpus = 1024;

// What a value that waits for its socket points at.
struct ValueParcel {
  Writer writer;
  std::shared_ptr<const void> owner;
};

bool is_last(const Frame& frame) {
  return frame.kind == static_cast<uint8_t>(FrameKind::kGone) ||
         (frame.kind == static_cast<uint8_t>(FrameKind::kFailure) && frame.id == 0);
}

bool is_answer(const Frame& frame) {
  return frame.kind == static_cast<uint8_t>(FrameKind::kResult) ||
         (frame.kind == static_cast<uint8_t>(FrameKind::kFailure) && frame.id != 0);
}

}  // namespace

// ---- TcpPeer ----

void TcpPeer::on_frame(uint32_t object, Frame frame) {
  if (object == 0) return on_control(std::move(frame));
  std::shared_ptr<TcpObjectLink> link;
  {
    std::lock_guard lock(mutex_);
    const auto it = objects_.find(object);
    if (it != objects_.end()) link = it->second;
  }
  PARL_CHECK(link, "there is no object {}", object);
  link->on_frame(std::move(frame));
}

void TcpPeer::on_control(Frame frame) {
  if (stage_ == Stage::kEnding) return;
  Reader reader = frame.reader();
  const auto kind = static_cast<ControlKind>(frame.kind);
  if (kind == ControlKind::kHello && stage_ == Stage::kHello) return on_hello(reader);
  if (kind == ControlKind::kProof && stage_ == Stage::kProof) return on_proof(reader);
  if (kind == ControlKind::kOffer && stage_ == Stage::kOffer) return on_offer(reader);
  if (kind == ControlKind::kAsk && stage_ == Stage::kAsk) return on_ask();
  if (kind == ControlKind::kFacts && stage_ == Stage::kReady) return meter_.note_facts(wire::load<WorkerFacts>(reader));
  if (kind == ControlKind::kOutput && stage_ == Stage::kReady) return output_->feed(wire::load<std::string>(reader));
  if (kind == ControlKind::kBye && stage_ >= Stage::kOffer) return on_bye(reader);
  raise("a message of kind {} has no place here", frame.kind);
}

void TcpPeer::on_hello(Reader& reader) {
  try {
    guest_ = read_greeting(reader);
  } catch (const WireError&) {
    throw;  // no peer of ours
  } catch (const Error& error) {
    return refuse(error.what());
  }
  if (!security_.token.empty() && !guest_.has_token)
    return refuse("this learner asks for a token: set PARL_TOKEN_FILE to a copy of the file that the learner has");
  stage_ = Stage::kProof;
  connection_->tell(ControlKind::kChallenge, own_);
}

void TcpPeer::on_proof(Reader& reader) {
  const auto proof = wire::load<Proof>(reader);
  if (!is_proved(security_, side_of(guest_), guest_, own_, connection_->binding(), proof.mac))
    return refuse("its token is not the one of this learner");
  const bool is_observer = guest_.role == Role::kObserver;
  stage_ = is_observer ? Stage::kAsk : Stage::kOffer;
  if (!is_observer) connection_->trust({}, 1, heartbeat_ / 4, heartbeat_);
  connection_->tell(
      ControlKind::kWelcome,
      Welcome{prove(security_, Side::kLearner, guest_, own_, connection_->binding()), heartbeat_.count()});
}

// It stays a stranger: it has no slots, and has to be gone as soon as one.
void TcpPeer::on_ask() {
  stage_ = Stage::kEnding;
  connection_->tell(ControlKind::kStatus, owner_.on_ask());
  connection_->finish("was told the status");
}

void TcpPeer::on_offer(Reader& reader) {
  auto offer = wire::load<WorkerOffer>(reader);
  PARL_CHECK(offer.slots >= 0 && offer.slots <= kMostSlots, "it offers {} slots, 0 to {} are allowed", offer.slots,
             kMostSlots);
  PARL_CHECK(offer.classes.size() <= kMostClasses, "it offers {} classes", offer.classes.size());
  PARL_CHECK(offer.gpus.size() <= kMostGpus && offer.devices.size() == offer.gpus.size(),
             "it offers {} GPUs, and numbers {}", offer.gpus.size(), offer.devices.size());
  if (offer.is_object) offer.slots = 0;
  offer_ = std::move(offer);
  output_ = std::make_unique<LogPump>(fmt::format("[{} {}] ", guest_.host, guest_.pid), "",
                                      [](const std::string& line) { log().info("{}", line); });
  meter_.start();
  connection_->trust({}, 1 + static_cast<size_t>(std::max(offer_.slots, 1)), heartbeat_ / 4, heartbeat_);
  stage_ = Stage::kReady;
  is_ready_ = true;
  log().debug("a worker has come: process {} on {} ({}), {} slots", guest_.pid, guest_.host, connection_->peer(),
              offer_.slots);
  owner_.on_ready(shared_from_this());
}

void TcpPeer::on_bye(Reader& reader) {
  const auto bye = wire::load<Bye>(reader);
  is_failure_ = bye.is_failure;
  bye_ = is_failure_ ? bye.why : "said goodbye" + (bye.why.empty() ? "" : ": " + bye.why);
  connection_->finish(bye_);
}

void TcpPeer::refuse(const std::string& text) {
  stage_ = Stage::kEnding;
  connection_->tell(ControlKind::kRefuse, Bye{text, false});
  connection_->finish("was refused: " + text);
  owner_.on_refused(connection_->peer(), text);
}

void TcpPeer::on_end(const std::string& why) {
  std::map<uint32_t, std::shared_ptr<TcpObjectLink>> objects;
  library_->close();
  if (output_) output_->finish();
  {
    std::lock_guard lock(mutex_);
    is_gone_ = true;
    objects.swap(objects_);
  }
  const bool is_loss = is_ready_ && (bye_.empty() || is_failure_) && !is_sent_away_;
  if (is_loss)
    log().warn("the worker process {} on {} {}; {} objects were there", guest_.pid, guest_.host, why, objects.size());
  if (!is_ready_ && stage_ != Stage::kEnding) {
    if (!is_open_) {
      owner_.on_refused(connection_->peer(), why);
    } else if (connection_->bytes_received() == 0 && why == "closed its connection") {
      log().debug("somebody at {} looked whether this port is open", connection_->peer());
    } else {
      owner_.on_stranger_gone(connection_->peer(), why);
    }
  }
  for (const auto& [number, link] : objects) link->on_end(why);
  owner_.on_gone(shared_from_this(),
                 is_loss ? fmt::format("process {} on {} {}", guest_.pid, guest_.host, why) : std::string());
}

const OfferedClass* TcpPeer::find(const std::string& name) const {
  const auto it =
      std::find_if(offer_.classes.begin(), offer_.classes.end(), [&](const auto& c) { return c.name == name; });
  return it == offer_.classes.end() ? nullptr : &*it;
}

std::string TcpPeer::how_it_differs(const OfferedClass& there, const std::string& here) const {
  return fmt::format("; on {} (pid {}) the class differs\n  there: {}\n  here:  {}", host(), pid(), there.fingerprint,
                     here);
}

int TcpPeer::used() {
  std::lock_guard lock(mutex_);
  return static_cast<int>(objects_.size());
}

int TcpPeer::vacant() {
  std::lock_guard lock(mutex_);
  return is_gone_ ? 0 : offer_.slots - static_cast<int>(objects_.size());
}

WorkerStatus TcpPeer::describe() {
  WorkerStatus status;
  status.host = shortened(host(), ManagerStatus::kLongestText);
  status.pid = pid();
  status.address = shortened(connection_->peer(), ManagerStatus::kLongestText);
  status.is_object = is_object();
  status.slots = slots();
  status.objects = used();
  status.gpus = gpus();
  meter_.describe(status, connection_->bytes_sent(), connection_->bytes_received());
  return status;
}

std::shared_ptr<TcpObjectLink> TcpPeer::reserve(GpuBook::Lease gpus) {
  std::lock_guard lock(mutex_);
  const int places = offer_.is_object ? (last_number_ == 0 ? 1 : 0) : offer_.slots;
  if (is_gone_ || static_cast<int>(objects_.size()) >= places) return nullptr;
  const uint32_t number = ++last_number_;
  auto link = std::make_shared<TcpObjectLink>(shared_from_this(), number, std::move(gpus));
  objects_.emplace(number, link);
  return link;
}

void TcpPeer::remove(uint32_t number) {
  std::shared_ptr<TcpObjectLink> link;
  {
    std::lock_guard lock(mutex_);
    const auto it = objects_.find(number);
    if (it != objects_.end()) link = std::move(it->second);
    if (link) objects_.erase(it);
  }
  if (link) link->give_back_gpus();
  owner_.on_place_free();
}

void TcpPeer::bye(const std::string& why, bool leaves_work) {
  is_sent_away_ = true;
  connection_->tell(ControlKind::kBye, Bye{why, leaves_work});
  if (leaves_work && !offer_.is_object) {
    connection_->await_end(why);  // when what is left there is gone
  } else {
    connection_->finish(why);
  }
}

void TcpPeer::send_value(uint64_t key, Writer writer, std::shared_ptr<const void> owner) {
  check_frame_size(writer);
  connection_->send(kVersions, static_cast<uint8_t>(VersionKind::kValue), key, writer, [&] {
    return std::make_shared<ValueParcel>(ValueParcel{std::move(writer), std::move(owner)});
  });
}

void TcpPeer::send_forget(uint64_t key) {
  connection_->send(kVersions, static_cast<uint8_t>(VersionKind::kForget), key, Writer());
}

// ---- TcpObjectLink ----

std::vector<int> TcpObjectLink::devices() const {
  std::vector<int> devices;
  const WorkerOffer& offer = peer_->offer_;
  for (const int id : gpus_.ids)
    devices.push_back(
        offer.devices[static_cast<size_t>(std::find(offer.gpus.begin(), offer.gpus.end(), id) - offer.gpus.begin())]);
  return devices;
}

void TcpObjectLink::give_back_gpus() {
  std::shared_ptr<void> hold;  // given back outside the lock
  std::lock_guard lock(mutex_);
  hold.swap(gpus_.hold);
}

void TcpObjectLink::note_failure(const RemoteFailure& failure) {
  const std::string where = failure.object + (failure.method.empty() ? "" : "." + failure.method);
  peer_->meter_.note_error(fmt::format("{}{}{} {}: {}", where, where.empty() ? "" : ": ", to_string(failure.kind),
                                       failure.type, failure.message));
}

void TcpObjectLink::attach(const std::shared_ptr<Listener>& listener) {
  bool is_late;
  {
    std::lock_guard lock(mutex_);
    is_late = is_over_ || is_ended_;
    if (!is_late) listener_ = listener;
  }
  if (is_late) listener->on_end();
}

void TcpObjectLink::drop_listener() {
  std::shared_ptr<Listener> dropped;  // destroyed outside the lock
  std::lock_guard lock(mutex_);
  dropped.swap(listener_);
}

std::vector<AttachmentPlace> TcpObjectLink::send(FrameKind kind, uint64_t id, const Writer& writer, bool may_take,
                                                 const Keep& keep) {
  (void)may_take;
  if (kind == FrameKind::kCreate || kind == FrameKind::kTake) {
    std::lock_guard lock(mutex_);
    is_begun_ = true;
  }
  peer_->connection().send(number_, static_cast<uint8_t>(kind), id, writer, keep);
  return {};
}

void TcpObjectLink::give_up() {
  drop_listener();
  if (peer_->is_object()) return peer_->connection().end("was not taken in time, and may dial again");  // it lives on
  bool is_begun;
  {
    std::lock_guard lock(mutex_);
    is_begun = is_begun_;
  }
  if (is_begun) return send(FrameKind::kStop);
  peer_->remove(number_);  // the worker has not heard of it
  mark_ended();
}

void TcpObjectLink::mark_ended() {
  std::lock_guard lock(mutex_);
  is_ended_ = true;
  changed_.notify_all();
}

void TcpObjectLink::on_frame(Frame frame) {
  const bool was_last = is_last(frame);
  if (is_answer(frame)) peer_->meter_.count_answer();
  std::shared_ptr<Listener> listener;
  {
    std::lock_guard lock(mutex_);
    listener = listener_;
  }
  if (was_last) peer_->remove(number_);
  if (listener) listener->on_frame(std::move(frame));
  if (was_last) mark_ended();
}

void TcpObjectLink::on_end(const std::string& why) {
  std::shared_ptr<Listener> listener;
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;  // whoever attaches from now on is told there
    why_ = why;
    listener.swap(listener_);
  }
  give_back_gpus();
  if (listener) listener->on_end();
  mark_ended();
}

bool TcpObjectLink::wait_ended(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const auto is_ended = [&] { return is_ended_; };
  if (deadline == kForever) return changed_.wait(lock, is_ended), true;
  return changed_.wait_until(lock, deadline, is_ended);
}

std::string TcpObjectLink::end_text() const {
  const std::string lines = peer_->last_lines();
  std::lock_guard lock(mutex_);
  return fmt::format("(pid {} on {}) {}{}", pid(), host(), why_.empty() ? "is gone" : why_,
                     lines.empty() ? "" : "; its worker's last lines:\n" + lines);
}

}  // namespace parl::internal
