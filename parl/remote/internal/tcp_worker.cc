#include "parl/remote/internal/tcp_worker.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string_view>

#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/remote/internal/last_words.h"
#include "parl/remote/internal/peer_meter.h"
#include "parl/remote/internal/spawn.h"
#include "parl/wire/wire.h"

namespace parl::internal {
namespace {

using Time = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

constexpr int kLearnersPatience = 60;                    // times the heartbeat's: a stopped learner is not lost
constexpr auto kGrace = std::chrono::milliseconds(500);  // for destructors once the learner is gone
constexpr auto kFarewell = std::chrono::seconds(1);      // for a goodbye to be heard
constexpr const char* kAskedToStop = "worker was asked to stop (SIGTERM)";
constexpr uint64_t kMostUntold = 4096;  // bytes of facts that wait for the network
constexpr int kSlack = 8;               // objects on their way out

Time now() { return std::chrono::steady_clock::now(); }

constexpr const char* kPatience = "PARL_WORKER_PATIENCE";             // seconds
constexpr const char* kFirstPatience = "PARL_WORKER_FIRST_PATIENCE";  // the same, for one that never had a learner
constexpr const char* kHadLearner = "PARL_WORKER_HAD_LEARNER";        // from one image of a worker process to the next

// This process again, from its beginning: what is stuck in user code ends with the old image.
[[noreturn]] void start_anew() {
  std::fflush(nullptr);
  ::setenv(kHadLearner, "1", 1);
  OwnArguments own;
  own.args.push_back(nullptr);
  ::execv("/proc/self/exe", own.args.data());
  ::_exit(EXIT_FAILURE);
}

WorkerOutput* output = nullptr;  // of a worker process

// Empty: for ever, or not said.
std::optional<std::chrono::seconds> seconds_from(const char* variable, int least) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return std::nullopt;
  const std::string_view number = text;
  int value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  PARL_CHECK(error == std::errc() && end == number.data() + number.size() && value >= least,
             "{} wants a number of seconds from {} on, not '{}'", variable, least, number);
  return std::chrono::seconds(value);
}

// How long a worker without a learner looks for one.
struct Patience {
  std::optional<std::chrono::seconds> again = seconds_from(kPatience, 1);
  std::optional<std::chrono::seconds> first = seconds_from(kFirstPatience, 0);
  std::optional<std::chrono::seconds> now(bool had_learner) const {
    if (had_learner || !first) return again;
    return first->count() > 0 ? first : std::nullopt;
  }
};

[[noreturn]] void end_without_learner(const std::string& address, bool had_learner, std::chrono::seconds waited) {
  if (had_learner) {
    log().info("worker {}: no learner at {} for {} s; this worker ends", ::getpid(), address, waited.count());
  } else {
    log().error("worker {}: no learner at {} has ever answered, for {} s; this worker ends ({})", ::getpid(), address,
                waited.count(), std::getenv(kFirstPatience) ? kFirstPatience : kPatience);
  }
  output->restore();
  std::_Exit(had_learner ? EXIT_SUCCESS : EXIT_FAILURE);
}

std::terminate_handler before_last_words = nullptr;

// Nobody catches an exception: the learner shall hear of it before the process ends.
void say_last_words() {
  if (std::current_exception()) std::fprintf(stderr, "terminate: %s\n", describe_current_exception().message.c_str());
  std::fflush(nullptr);
  output->say_last("was ended by an exception that nobody caught");
  if (before_last_words) before_last_words();
  std::abort();
}

}  // namespace

// ---- WorkerSession ----

WorkerSession::WorkerSession(const Security& security, const WorkerSettings& settings, const ClassInfo* object,
                             WorkerOutput* output)
    : security_(security),
      slots_(settings.slots),
      gpus_(settings.gpus),
      object_(object),
      output_(output),
      own_(make_greeting(security)) {
  ::pthread_sigmask(SIG_SETMASK, nullptr, &signals_);
}

void WorkerSession::on_open(const std::shared_ptr<Connection>& self) {
  {
    std::lock_guard lock(mutex_);
    connection_ = self;
  }
  self->tell(ControlKind::kHello, own_);
}

void WorkerSession::on_frame(uint32_t number, Frame frame) {
  if (number == 0) return on_control(std::move(frame));
  PARL_CHECK(stage_ == Stage::kServing, "a frame for object {} before the welcome", number);
  if (number == kVersions) return on_version(std::move(frame));
  std::shared_ptr<HostedObject> object;
  {
    std::lock_guard lock(mutex_);
    const auto it = objects_.find(number);
    if (it != objects_.end()) object = it->second;
  }
  if (object) return object->deliver(std::move(frame));
  const auto kind = static_cast<FrameKind>(frame.kind);
  if (kind == (object_ ? FrameKind::kTake : FrameKind::kCreate)) begin(number, std::move(frame));
  // Else: a goodbye or a call given up, for an object that has just gone.
}

void WorkerSession::on_version(Frame frame) {
  const uint64_t key = frame.id;
  if (frame.kind == static_cast<uint8_t>(VersionKind::kValue)) return versions_->put(key, std::move(frame));
  PARL_CHECK(frame.kind == static_cast<uint8_t>(VersionKind::kForget), "a versioned value of kind {}", frame.kind);
  auto dropped = versions_->forget(key);
  std::lock_guard lock(mutex_);
  if (dropped && !objects_.empty()) objects_.begin()->second->drop(std::move(dropped));
}

void WorkerSession::on_control(Frame frame) {
  Reader reader = frame.reader();
  switch (static_cast<ControlKind>(frame.kind)) {
    case ControlKind::kChallenge:
      PARL_CHECK(stage_ == Stage::kHello, "a second challenge");
      return on_challenge(reader);
    case ControlKind::kWelcome:
      PARL_CHECK(stage_ == Stage::kProof, "a welcome that has no place here");
      return on_welcome(reader);
    case ControlKind::kRefuse:
      return give_up("the learner refuses: " + wire::load<Bye>(reader).why);
    case ControlKind::kBye:
      return on_bye(reader);
    default:
      raise("a message of kind {} has no place here", frame.kind);
  }
}

void WorkerSession::on_challenge(Reader& reader) {
  learner_ = read_greeting(reader);
  if (const std::string why = why_not(security_, learner_); !why.empty()) return give_up(why);
  stage_ = Stage::kProof;
  connection_->tell(ControlKind::kProof,
                    Proof{prove(security_, Side::kWorker, own_, learner_, connection_->binding())});
}

void WorkerSession::on_welcome(Reader& reader) {
  const auto welcome = wire::load<Welcome>(reader);
  if (!is_proved(security_, Side::kLearner, own_, learner_, connection_->binding(), welcome.mac))
    return give_up("the learner's token is another one");
  PARL_CHECK(welcome.heartbeat_ms > 0 && welcome.heartbeat_ms < 86'400'000, "a heartbeat of {} ms",
             welcome.heartbeat_ms);
  stage_ = Stage::kServing;
  const milliseconds heartbeat(welcome.heartbeat_ms);
  connection_->trust({}, 2 + static_cast<size_t>(slots_ + kSlack), std::max(heartbeat / 4, milliseconds(1)),
                     heartbeat * kLearnersPatience);
  WorkerOffer offer;
  offer.slots = slots_;
  offer.is_object = object_ != nullptr;
  offer.gpus = gpus_.ids;
  for (size_t i = 0; i < gpus_.ids.size(); ++i) offer.devices.push_back(static_cast<int>(i));
  if (object_) {
    offer.classes.push_back({object_->name, fingerprint(*object_), {}});
  } else {
    for (const std::string& name : offered_classes()) {
      const FactoryEntry& entry = *find_class(name);
      OfferedClass& offered = offer.classes.emplace_back(OfferedClass{name, fingerprint(*entry.info), {}});
      for (const ConstructorInfo& constructor : entry.constructors)
        offered.constructors.push_back(constructor.signature);
    }
  }
  connection_->tell(ControlKind::kOffer, offer);
  tell_facts();
  if (output_) output_->send_to(connection_);  // before the first object can be here
  std::lock_guard lock(mutex_);
  is_welcome_ = true;
  changed_.notify_all();
}

// A learner that reads nothing is not told again and again.
void WorkerSession::tell_facts() {
  if (connection_->queued_bytes(0) < kMostUntold) connection_->tell(ControlKind::kFacts, own_facts());
}

void WorkerSession::on_bye(Reader& reader) {
  const auto bye = wire::load<Bye>(reader);
  if (bye.leaves_work && !object_) {  // the connection ends with this image of the process, so that the learner knows
    std::lock_guard lock(mutex_);
    must_force_ = true;
    why_ = "the learner left objects behind";
    changed_.notify_all();
    return;
  }
  connection_->finish("the learner said goodbye: " + bye.why);
}

void WorkerSession::give_up(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    was_refused_ = true;
  }
  connection_->finish(why);
}

void WorkerSession::begin(uint32_t number, Frame frame) {
  auto object = std::make_shared<HostedObject>(connection_, number, versions_, [this, number] { leave(number); });
  object->deliver(std::move(frame));
  std::lock_guard lock(mutex_);
  PARL_CHECK(object_ || static_cast<int>(objects_.size()) < slots_, "more objects than the {} on offer", slots_);
  objects_.emplace(number, object);
  if (object_) {
    taken_ = std::move(object);
    changed_.notify_all();
  } else {
    try {
      // Nobody waits for what a thread does when it has left its object: thread_local destructors may take their time.
      std::thread([self = shared_from_this(), number, object] { self->run(number, object); }).detach();
      ++running_;
    } catch (const std::system_error& error) {
      objects_.erase(number);
      RemoteFailure failure = make_failure(RemoteErrorKind::kRefused, fmt::format("no thread: {}", error.what()));
      Writer writer;
      wire::save(writer, failure);
      connection_->send(number, static_cast<uint8_t>(FrameKind::kFailure), 0, writer);
    }
  }
}

void WorkerSession::run(uint32_t number, const std::shared_ptr<HostedObject>& object) {
  ::pthread_sigmask(SIG_SETMASK, &signals_, nullptr);  // begun by the I/O thread, where all are blocked
  const SignalStack stack;
  ::pthread_setname_np(::pthread_self(), fmt::format("parl-{}", number).substr(0, 15).c_str());
  try {
    object->serve();
  } catch (const std::exception& error) {  // no memory for an answer, or garbage: nobody could go on
    log().error("object {} of the learner: {}; the connection is ended", number, error.what());
    connection_->end(fmt::format("an object could not go on: {}", error.what()));
  }
  std::lock_guard lock(mutex_);
  objects_.erase(number);
  --running_;
  changed_.notify_all();
}

void WorkerSession::leave(uint32_t number) {
  std::lock_guard lock(mutex_);
  objects_.erase(number);
}

void WorkerSession::on_end(const std::string& why) {
  std::lock_guard lock(mutex_);
  is_ended_ = true;
  versions_->close();
  why_ = why_left_.empty() ? why : why_left_;
  for (const auto& [number, object] : objects_) object->cut_off();
  changed_.notify_all();
}

bool WorkerSession::wait_welcome(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return is_welcome_ || is_ended_; });
  return is_welcome_;
}

void WorkerSession::wait_end(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const auto is_over = [&] { return is_ended_ || must_force_; };
  if (deadline == kForever) return changed_.wait(lock, is_over);
  changed_.wait_until(lock, deadline, is_over);
}

std::shared_ptr<HostedObject> WorkerSession::wait_taken() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_ended_ || taken_; });
  return taken_;
}

void WorkerSession::bye(const std::string& why) {
  const std::string text = "this side said goodbye: " + why;
  {
    std::lock_guard lock(mutex_);
    why_left_ = text;  // the learner may close before the loop has heard of finish()
  }
  connection_->tell(ControlKind::kBye, Bye{why, false});
  connection_->finish(text);
}

void WorkerSession::end(const std::string& why) {
  std::shared_ptr<Connection> connection;
  {
    std::lock_guard lock(mutex_);
    connection = connection_;
  }
  if (connection) connection->end(why);
}

bool WorkerSession::end_objects(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return running_ == 0; });
}

std::string WorkerSession::why() const {
  std::lock_guard lock(mutex_);
  return why_;
}

bool WorkerSession::was_refused() const {
  std::lock_guard lock(mutex_);
  return was_refused_;
}

bool WorkerSession::must_end_by_force() const {
  std::lock_guard lock(mutex_);
  return must_force_;
}

// ---- the two programs that dial ----

namespace {

// The session of a worker process at present, for the thread that SIGTERM wakes.
class Present {
 public:
  // False: the process is about to end, and nobody shall dial any more.
  bool set(std::shared_ptr<WorkerSession> session) {
    std::lock_guard lock(mutex_);
    session_ = std::move(session);
    return !is_leaving_;
  }
  std::shared_ptr<WorkerSession> leave() {
    std::lock_guard lock(mutex_);
    is_leaving_ = true;
    return session_;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<WorkerSession> session_;
  bool is_leaving_ = false;
};

[[noreturn]] void leave_on_request(Present& present) {
  const auto session = present.leave();
  log().info("worker {}: asked to stop (SIGTERM)", ::getpid());
  if (session) {
    session->bye(kAskedToStop);
    session->wait_end(now() + kFarewell);
    session->end_objects(now() + kGrace);
  }
  output->restore();
  std::_Exit(128 + SIGTERM);
}

}  // namespace

void run_tcp_worker(const WorkerSettings& settings, const Security& security) {
  const int slots = settings.slots;
  const std::string& address = settings.address;
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    PARL_CHECK(slots >= 1 && slots <= kMostSlots, "{} slots are asked for, 1 to {} are possible", slots, kMostSlots);
    check_guarded(parse_address(address), security);
    raise_descriptor_limit();
    output = new WorkerOutput;  // for the whole life of the process, its exit included
    std::atexit([] { output->restore(); });
    before_last_words = std::set_terminate(say_last_words);
    static Present& present = *new Present;
    listen_to_signals(*output, [] { leave_on_request(present); });
    const Patience patience;
    bool had_learner = std::getenv(kHadLearner) != nullptr;
    Dialer dialer(settings, security, output);
    while (present.set(nullptr)) {
      const auto longest = patience.now(had_learner);
      const auto session = dialer.dial(nullptr, longest ? deadline_in(*longest) : kForever);
      if (!present.set(session)) break;
      if (!session) end_without_learner(address, had_learner, *longest);
      had_learner = true;
      log().debug("worker {}: {} slots for the learner at {}", ::getpid(), slots, address);
      session->wait_end();
      output->send_to(nullptr);
      log().info("worker {}: {}", ::getpid(), session->why());
      if (session->must_end_by_force() || !session->end_objects(now() + kGrace)) {
        log().error("worker {} starts anew: objects are left that do not end", ::getpid());
        output->restore();
        start_anew();
      }
    }
    for (;;) ::pause();  // the other thread ends the process
  } catch (const std::exception& error) {
    log().error("worker: {}", error.what());
    if (output) output->restore();
    std::_Exit(EXIT_FAILURE);
  }
}

void serve_object(const ClassInfo& info, void* object, const std::string& address, std::chrono::nanoseconds patience) {
  Dialer dialer({address, 0}, load_security(resolve({})));
  for (;;) {
    const auto session = dialer.dial(&info, deadline_in(patience));
    if (!session) raise("as_remote: no learner at {} has answered in time", address);
    const auto taken = session->wait_taken();
    const auto end = taken ? taken->serve(info, object) : HostedObject::End::kCutOff;
    if (end == HostedObject::End::kGoodbye) {
      session->bye("the object's handle was given back");
      session->wait_end();
      return;
    }
    session->end("the object could not be taken");  // unless it has ended already
    session->wait_end();
    log().warn("{}: {}; dialling again", info.name, session->why());
  }
}

}  // namespace parl::internal
