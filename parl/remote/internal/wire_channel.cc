#include "parl/remote/internal/wire_channel.h"

#include "parl/core/check.h"
#include "parl/wire/wire.h"

namespace parl::internal {
namespace {

constexpr size_t kKeptWriter = 64 * 1024;  // larger buffers are given back after the call

// What a frame that waits for its socket points at.
struct Parcel {
  Writer writer;
  CallRef call;
  ~Parcel() {
    if (call) call->drop_arguments();
  }
};

bool is(const Frame& frame, FrameKind kind) { return frame.kind == static_cast<uint8_t>(kind); }

}  // namespace

WireChannel::WireChannel(const CreateRequest& request, std::shared_ptr<ManagerShared> shared,
                         std::shared_ptr<ObjectLink> link)
    : ObjectChannel(request, shared, link->pid()),
      link_(std::move(link)),
      max_calls_(shared->options.max_calls),
      max_bytes_(shared->options.max_bytes),
      borrower_(link_->library() ? std::make_unique<VersionLibrary::Borrower>(link_->library()) : nullptr) {}

void WireChannel::build(const CreateRequest& request) {
  const CreateHead head{info().name, fingerprint(info()),
                        request.constructor ? request.constructor->constructor().signature : "", placement(),
                        shared()->options.slab_bytes};
  try {
    try {
      wire::save(writer_, head);
      if (request.constructor) request.constructor->encode(writer_);
      check_frame_size(writer_);
    } catch (...) {
      rethrow_as_coding("the constructor's arguments");
    }
  } catch (...) {
    link_->give_up();
    RemoteFailure failure = describe_current_exception();
    failure.class_name = info().name;
    failure.object = label();
    throw RemoteError(std::move(failure));
  }
  note_loans(0);
  link_->send(request.constructor ? FrameKind::kCreate : FrameKind::kTake, 0, writer_, false, nullptr);
  writer_.clear();
  std::unique_lock lock(mutex_);
  if (state_ == State::kLeaving) {  // stop() may have come before the object was known there
    lock.unlock();
    link_->send(FrameKind::kStop);
    lock.lock();
  }
  if (!changed_.wait_until(lock, request.deadline, [&] { return state_ != State::kBuilding; })) {
    state_ = State::kGone;
    lock.unlock();
    link_->give_up();
    throw_remote(RemoteErrorKind::kTimeout,
                 fmt::format("the constructor of {} did not return in time; it is ended (process {} on {})", label(),
                             pid(), host()));
  }
  if (state_ == State::kAlive) return;
  if (build_failure_) {
    RemoteFailure failure = *build_failure_;
    failure.class_name = info().name;
    failure.object = label();
    failure.host = host();
    failure.pid = pid();
    throw RemoteError(std::move(failure));
  }
  throw_remote(RemoteErrorKind::kLost, why_lost_);
}

RemoteFailure WireChannel::refusal() const {
  return state_ == State::kLost ? make_failure(RemoteErrorKind::kLost, why_lost_)
                                : make_failure(RemoteErrorKind::kClosed, "the object was closed");
}

// Waits for room in the mailbox. False: none by `deadline`. A closed channel lets everybody through, to fail there.
bool WireChannel::admit(const Call& call, TimePoint deadline, std::unique_lock<std::mutex>& lock) {
  const auto has_room = [&] {
    if (state_ != State::kAlive) return true;
    return admitted_ < max_calls_ && (admitted_ == 0 || admitted_bytes_ + call.argument_bytes() <= max_bytes_);
  };
  if (!has_room()) {
    if (deadline == kNoWait) return false;
    ++waiting_;
    const bool there_is =
        deadline == kForever ? (changed_.wait(lock, has_room), true) : changed_.wait_until(lock, deadline, has_room);
    --waiting_;
    if (!there_is) return false;
  }
  ++admitted_;
  admitted_bytes_ += call.argument_bytes();
  return true;
}

bool WireChannel::submit(CallRef call, TimePoint deadline) {
  {
    std::unique_lock lock(mutex_);
    if (!admit(*call, deadline, lock)) return false;
  }
  ++stats().calls;
  encode_and_send(std::move(call));
  return true;
}

// Under order_mutex_. False: with the reason.
bool WireChannel::encode(Call& call, RemoteFailure& failure) {
  const uint64_t skipped = versions()->skipped();
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(must_forget_versions_, false)) book_.clear();
  }
  try {
    try {
      writer_.number<uint32_t>(call.method_index());
      call.encode(writer_);
      check_frame_size(writer_);
      stats().values_skipped += versions()->skipped() - skipped;
      return true;
    } catch (...) {
      rethrow_as_coding("the arguments");
    }
  } catch (...) {
    failure = describe_current_exception();
  }
  return false;
}

// Gives an encoded call its number and its place in the order. False: it is not to be sent.
bool WireChannel::enlist(const CallRef& call, RemoteFailure& failure) {
  std::lock_guard lock(mutex_);
  if (state_ != State::kAlive) {
    failure = refusal();
    return false;
  }
  if (call->given_up()) return false;
  call->id = ++last_id_;
  pending_.push_back(call);
  return true;
}

// What the message `id` names is lent until it is answered.
void WireChannel::note_loans(uint64_t id) {
  if (!borrower_) return;
  if (auto loans = borrower_->take_loans(); !loans.empty()) {
    std::lock_guard lock(mutex_);
    named_.push_back({id, std::move(loans)});
  }
}

// Under mutex_: what the messages up to `id` named; to be given back outside of it.
std::vector<WireChannel::Named> WireChannel::end_loans(uint64_t id) {
  std::vector<Named> ended;
  for (; !named_.empty() && named_.front().id <= id; named_.pop_front()) ended.push_back(std::move(named_.front()));
  return ended;
}

void WireChannel::drop_loans() {
  std::vector<Named> ended;
  std::lock_guard lock(mutex_);
  ended = end_loans(UINT64_MAX);
}

void WireChannel::encode_and_send(CallRef call) {
  std::lock_guard order(order_mutex_);
  RemoteFailure failure = make_failure(RemoteErrorKind::kCancelled, "the call was given up before it was sent");
  if (!encode(*call, failure) || !enlist(call, failure)) {
    book_.clear();  // what was noted as sent does not go
    if (borrower_) borrower_->take_loans();
    writer_.clear();
    {
      std::lock_guard lock(mutex_);
      --admitted_;
      admitted_bytes_ -= call->argument_bytes();
      if (waiting_) changed_.notify_all();
    }
    call->fail(std::move(failure));
    return;
  }
  bool is_kept = false;
  try {
    note_loans(call->id);
    count_arrays(link_->send(FrameKind::kCall, call->id, writer_, true, [&] {
      is_kept = true;
      auto parcel = std::make_shared<Parcel>();
      parcel->writer = std::move(writer_);
      parcel->call = call;
      return parcel;
    }));
  } catch (...) {
    link_->cut();  // no memory in the middle of a frame; every pending call fails with `lost`
  }
  if (!is_kept) call->drop_arguments();
  if (is_kept || writer_.head().size() > kKeptWriter) {
    writer_ = Writer(versions());
  } else {
    writer_.clear();
  }
  if (call->given_up()) link_->send(FrameKind::kGiveUp, call->id);
}

void WireChannel::given_up(Call& call) noexcept {
  try {
    uint64_t id;
    {
      std::lock_guard lock(mutex_);
      id = call.id;
      if (id == 0 || state_ == State::kGone || state_ == State::kLost) return;
    }
    link_->send(FrameKind::kGiveUp, id);
  } catch (...) {  // advice only
  }
}

void WireChannel::goodbye() noexcept {
  try {
    std::lock_guard order(order_mutex_);
    {
      std::lock_guard lock(mutex_);
      if (state_ != State::kAlive) return;
      state_ = State::kLeaving;
      changed_.notify_all();
    }
    link_->send(FrameKind::kGoodbye);
  } catch (...) {
    link_->cut();
  }
}

void WireChannel::stop() noexcept {
  try {
    bool was_gone;
    {
      std::lock_guard lock(mutex_);
      was_gone = state_ == State::kGone || state_ == State::kLost;
      if (state_ == State::kBuilding)
        build_failure_ =
            std::make_unique<RemoteFailure>(make_failure(RemoteErrorKind::kClosed, "the manager was closed"));
      if (!was_gone) state_ = State::kLeaving;
      changed_.notify_all();
    }
    if (was_gone) return;
    // First the calls: a method that sees the request to stop may answer at once, and its caller is told `closed`.
    fail_all(RemoteErrorKind::kClosed, "the manager was closed");
    link_->send(FrameKind::kStop);
  } catch (...) {
    link_->cut();
  }
}

bool WireChannel::wait_gone(TimePoint deadline) { return link_->wait_ended(deadline); }

bool WireChannel::lost() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kLost;
}

void WireChannel::fail_all(RemoteErrorKind kind, const std::string& message) {
  std::deque<CallRef> calls;
  {
    std::lock_guard lock(mutex_);
    calls.swap(pending_);
    admitted_ -= calls.size();
    for (const CallRef& call : calls) admitted_bytes_ -= call->argument_bytes();
    changed_.notify_all();
  }
  for (const CallRef& call : calls) {
    call->give_up();
    call->fail(make_failure(kind, message));
  }
}

void WireChannel::count_arrays(const std::vector<AttachmentPlace>& places) {
  for (const AttachmentPlace& place : places)
    if (place.where & AttachmentPlace::kIsArray)
      ++(place.where & AttachmentPlace::kCopied ? stats().arrays_copied : stats().arrays_in_place);
}

// Empty: the manager has stopped, and nobody waits.
CallRef WireChannel::take_front(uint64_t id) {
  std::vector<Named> ended;
  std::lock_guard lock(mutex_);
  ended = end_loans(id);
  if (pending_.empty() && state_ != State::kAlive) return {};
  PARL_CHECK(!pending_.empty() && pending_.front()->id == id, "the worker answers call {}, which is not the next one",
             id);
  CallRef call = std::move(pending_.front());
  pending_.pop_front();
  --admitted_;
  admitted_bytes_ -= call->argument_bytes();
  if (waiting_) changed_.notify_all();
  return call;
}

void WireChannel::on_result(Frame frame) {
  CallRef call = take_front(frame.id);
  if (!call) return;
  count_arrays(frame.places);
  if (frame.out_of_memory) {
    call->fail(make_failure(RemoteErrorKind::kSerialize, "no memory for the result"));
    return;
  }
  call->complete({std::move(frame.head), std::move(frame.attachments)});
}

void WireChannel::on_failure(Frame frame) {
  Reader reader = frame.reader();
  auto failure = wire::load<RemoteFailure>(reader);
  if (failure.object.empty()) failure.object = label();
  if (frame.id != 0) {
    if (failure.kind == RemoteErrorKind::kSerialize) {
      std::lock_guard lock(mutex_);
      must_forget_versions_ = true;
      for (Named& named : named_)
        if (named.id == frame.id)
          for (auto& loan : named.loans) loan.spoil();
    }
    const CallRef call = take_front(frame.id);
    if (call && failure.method.empty()) failure.method = call->method().name;
    link_->note_failure(failure);
    if (call) call->fail(std::move(failure));
    return;
  }
  link_->note_failure(failure);
  drop_loans();
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kBuilding) return;
    build_failure_ = std::make_unique<RemoteFailure>(std::move(failure));
    state_ = State::kGone;
    changed_.notify_all();
  }
  end_slot();
  link_->expect_end();
}

void WireChannel::on_frame(Frame frame) {
  if (is(frame, FrameKind::kResult)) return on_result(std::move(frame));
  if (is(frame, FrameKind::kFailure)) return on_failure(std::move(frame));
  if (is(frame, FrameKind::kCreated)) {
    std::vector<Named> ended;
    std::lock_guard lock(mutex_);
    ended = end_loans(0);
    if (state_ == State::kBuilding) state_ = State::kAlive;
    changed_.notify_all();
    return;
  }
  PARL_CHECK(is(frame, FrameKind::kGone), "the worker sent a frame of unknown kind {}", frame.kind);
  {
    std::lock_guard lock(mutex_);
    state_ = State::kGone;
    changed_.notify_all();
  }
  fail_all(RemoteErrorKind::kClosed, "the object was closed");
  drop_loans();
  end_slot();
  link_->expect_end();
}

void WireChannel::on_end() {
  const std::string why = fmt::format("the process of {} {}", label(), link_->end_text());
  bool was_stopped;
  {
    std::lock_guard lock(mutex_);
    was_stopped = state_ == State::kGone || (state_ == State::kLeaving && pending_.empty());
    why_lost_ = why;
    state_ = was_stopped ? State::kGone : State::kLost;
    changed_.notify_all();
  }
  fail_all(RemoteErrorKind::kLost, why);
  drop_loans();
  end_slot();
}

}  // namespace parl::internal
