// An object in another process, here or on another machine, as its handles see it.
//
// Calls are encoded and sent by the calling thread, in order; results come in the same order and are completed
// undecoded on the I/O thread. The bound of the mailbox counts calls that were sent and not answered. The link keeps
// the channel alive until the object is gone: its slot is free then, not when the last handle goes. Thread rule: any
// thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "parl/remote/internal/engine.h"
#include "parl/remote/internal/object_link.h"

namespace parl::internal {

class WireChannel final : public ObjectChannel, public ObjectLink::Listener {
 public:
  WireChannel(const CreateRequest& request, std::shared_ptr<ManagerShared> shared, std::shared_ptr<ObjectLink> link);

  // Sends the constructor call (none: the object is there and is taken) and waits for its outcome. Throws RemoteError
  // `threw`, `refused`, `serialize`, `lost`; `timeout` at the deadline: the object is given up then.
  void build(const CreateRequest& request);

  bool submit(CallRef call, TimePoint deadline) override;
  void given_up(Call& call) noexcept override;
  void goodbye() noexcept override;
  bool wait_gone(TimePoint deadline) override;
  bool lost() const override;
  const std::string& host() const override { return link_->host(); }

  // The manager ends: pending calls fail with `closed`, the worker skips what has not begun and goes.
  void stop() noexcept;

  void on_frame(Frame frame) override;
  void on_end() override;

 private:
  enum class State { kBuilding, kAlive, kLeaving, kGone, kLost };  // kLeaving: no more calls
  struct Named {
    uint64_t id;  // of the call; 0: the constructor
    VersionLibrary::Loans loans;
  };
  bool admit(const Call& call, TimePoint deadline, std::unique_lock<std::mutex>& lock);
  bool encode(Call& call, RemoteFailure& failure);
  bool enlist(const CallRef& call, RemoteFailure& failure);
  void encode_and_send(CallRef call);
  VersionSender* versions() { return borrower_ ? static_cast<VersionSender*>(borrower_.get()) : &book_; }
  void note_loans(uint64_t id);
  std::vector<Named> end_loans(uint64_t id);
  void drop_loans();
  CallRef take_front(uint64_t id);
  void on_result(Frame frame);
  void on_failure(Frame frame);
  void count_arrays(const std::vector<AttachmentPlace>& places);
  void fail_all(RemoteErrorKind kind, const std::string& message);
  RemoteFailure refusal() const;

  const std::shared_ptr<ObjectLink> link_;
  const size_t max_calls_, max_bytes_;

  std::mutex order_mutex_;  // encoding and sending, in the order of acceptance; before mutex_
  // Under order_mutex_: what the worker holds. Its objects share it, or this one has its own.
  const std::unique_ptr<VersionLibrary::Borrower> borrower_;
  VersionBook book_;
  Writer writer_{versions()};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kBuilding;
  std::deque<CallRef> pending_;
  size_t admitted_ = 0, admitted_bytes_ = 0;
  int waiting_ = 0;
  std::deque<Named> named_;            // shared values that messages name which are not answered
  bool must_forget_versions_ = false;  // a message did not decode there
  uint64_t last_id_ = 0;
  std::string why_lost_;
  std::unique_ptr<RemoteFailure> build_failure_;
};

}  // namespace parl::internal
