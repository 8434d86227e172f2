// One call in flight: arguments, method, and the place where its outcome arrives.
//
// Made by a stub, shared by the Future (or the blocked caller) and the engine that carries it. An engine does exactly
// one of: run(object), when the object lives in this process; or encode(writer), and later complete(message); or
// fail(). Whatever comes second is dropped and counted as late. Intrusively counted: one allocation per call. Thread
// rule: any thread; run() on the object's thread, encode() by one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "parl/remote/error.h"
#include "parl/wire/archive.h"

namespace parl::internal {

class ObjectChannel;
struct ClassInfo;
struct MethodInfo;

using TimePoint = std::chrono::steady_clock::time_point;
inline constexpr TimePoint kForever = TimePoint::max();
inline constexpr TimePoint kNoWait = TimePoint::min();

// A deadline `timeout` from now; kForever instead of an overflow.
TimePoint deadline_in(std::chrono::nanoseconds timeout);

// An encoded message that has arrived. Kept as it is until somebody asks for the value: decoding runs on the caller's
// thread, never on an I/O thread.
struct ReceivedMessage {
  std::vector<std::byte> head;
  std::vector<ReceivedAttachment> attachments;
  Reader reader() { return Reader(head, attachments); }
};

class Call {
 public:
  Call(const MethodInfo* method, uint32_t method_index, size_t argument_bytes)
      : method_(method), method_index_(method_index), argument_bytes_(argument_bytes) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  virtual ~Call();

  // ---- the engine's side ----
  // Runs the method on `object` with the arguments moved, and completes. Never throws.
  virtual void run(void* object) noexcept = 0;
  // Writes the arguments; attachments point into this call, which must live until they are sent. Throws bad_alloc,
  // WireError (then: fail() with describe_current_exception()).
  virtual void encode(Writer& writer) = 0;
  // Drops the arguments as soon as they are sent: memory of large arrays goes back early.
  virtual void drop_arguments() noexcept = 0;

  // The encoded result. False: the caller had gone; dropped.
  bool complete(ReceivedMessage message) noexcept;
  // Fills what is empty in `failure` (class, method, object, host, pid) from the channel. False: as above.
  bool fail(RemoteFailure failure) noexcept;

  const MethodInfo& method() const { return *method_; }
  uint32_t method_index() const { return method_index_; }
  size_t argument_bytes() const { return argument_bytes_; }  // approximate; what back-pressure counts
  // The caller gave it up (deadline, cancel, manager closing): skip it if it has not begun, else stop_requested() is
  // true.
  bool given_up() const { return given_up_.load(std::memory_order_relaxed); }
  void give_up() noexcept { given_up_.store(true, std::memory_order_relaxed); }

  void set_channel(std::shared_ptr<ObjectChannel> channel) { channel_ = std::move(channel); }
  ObjectChannel* channel() const { return channel_.get(); }

  uint64_t id = 0;       // for the engine: its own number of this call
  Call* next = nullptr;  // for the engine: a list of its own

  // ---- the caller's side ----
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  // Blocks on this call's own condition until ready or `deadline`; returns ready(). See also ObjectChannel::wait.
  bool wait_ready(TimePoint deadline);
  // Runs `f` once, when ready, on the completing thread; now, if it is. `f` must be short and not throw. Returns a
  // number for remove_listener.
  uint64_t add_listener(std::function<void()> f);
  void remove_listener(uint64_t number);
  // After ready(): throws the failure, if there is one, or decodes a message into the value.
  void settle();
  bool failed() const { return failure_ != nullptr; }  // after ready()
  // The future is gone: an error that nobody will fetch is logged.
  void detach() noexcept;

  friend void add_ref(Call* c) noexcept { c->references_.fetch_add(1, std::memory_order_relaxed); }
  friend void release(Call* c) noexcept {
    if (c->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete c;
  }

 protected:
  virtual void decode(Reader& reader) = 0;
  // run() has stored the value. False: the caller had gone.
  bool complete_local() noexcept;

 private:
  // The one transition from pending to ready; fills the outcome under the lock.
  template <typename Fill>
  bool finish(Fill&& fill) noexcept;
  void log_unfetched() noexcept;

  const MethodInfo* method_;
  uint32_t method_index_;
  size_t argument_bytes_;
  std::atomic<uint32_t> references_{1};
  std::atomic<bool> ready_{false}, given_up_{false};
  bool detached_ = false, fetched_ = false;
  std::shared_ptr<ObjectChannel> channel_;
  std::unique_ptr<RemoteFailure> failure_;
  std::optional<ReceivedMessage> message_;
  std::mutex mutex_;
  std::condition_variable condition_;
  std::vector<std::pair<uint64_t, std::function<void()>>> listeners_;
  uint64_t last_listener_ = 0;
};

// Shared ownership of a Call (or a class derived from it).
template <typename C>
class Ref {
 public:
  Ref() = default;
  static Ref adopt(C* c) { return Ref(c); }  // takes over the reference that a new call starts with
  static Ref share(C* c) {
    if (c) add_ref(c);
    return Ref(c);
  }
  Ref(const Ref& other) : call_(other.call_) {
    if (call_) add_ref(call_);
  }
  template <typename D>
  Ref(Ref<D>&& other) noexcept : call_(other.leave()) {}  // NOLINT: as smart pointers convert
  Ref(Ref&& other) noexcept : call_(other.leave()) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(call_, other.call_);
    return *this;
  }
  ~Ref() {
    if (call_) release(call_);
  }
  // Shared ownership under a base's type.
  template <typename B>
  Ref<B> as() const {
    return Ref<B>::share(call_);
  }
  C* get() const { return call_; }
  C* operator->() const { return call_; }
  C& operator*() const { return *call_; }
  explicit operator bool() const { return call_ != nullptr; }
  C* leave() noexcept { return std::exchange(call_, nullptr); }

 private:
  explicit Ref(C* c) : call_(c) {}
  C* call_ = nullptr;
};
using CallRef = Ref<Call>;

}  // namespace parl::internal
