// Builds one object from its description on the wire, runs its calls, and destroys it: what workers of every engine
// have in common. Where frames come from and answers go to is its Home's affair.
// Thread rule: everything on the object's own thread.
#pragma once

#include <memory>
#include <vector>

#include "parl/remote/internal/context.h"
#include "parl/remote/internal/frame.h"
#include "parl/remote/internal/process_protocol.h"
#include "parl/wire/array_pool.h"

namespace parl::internal {

class ObjectRunner {
 public:
  class Home {
   public:
    virtual ~Home() = default;
    // `may_take`: arrays in shared memory may be moved out of the writer.
    virtual void send(FrameKind kind, uint64_t id, Writer&& writer, bool may_take) = 0;
    virtual bool is_given_up(uint64_t id) = 0;
    // Looks for news while a method polls stop_requested().
    virtual void look_for_news() {}
    virtual ArrayAllocator* allocator() = 0;
    // Where Versioned values are that objects share; null: each has its own.
    virtual VersionReceiver* versions() { return nullptr; }
    // The object is about to be built. May change where it lives.
    virtual void prepare(CreateHead& head) { (void)head; }
  };

  explicit ObjectRunner(Home& home);
  ~ObjectRunner();
  ObjectRunner(const ObjectRunner&) = delete;
  ObjectRunner& operator=(const ObjectRunner&) = delete;

  // Answers kCreate with kCreated or, when there is no object then, kFailure.
  void create(Frame frame);
  // An object that exists already; it is not destroyed here. Answers kTake.
  void adopt(const ClassInfo& info, void* object);
  // False: the answer is a kFailure.
  bool take(Frame frame);
  // Answers kCall with kResult or kFailure.
  void call(Frame frame);
  // Destroys the object, unless it was adopted. What its destructor throws is logged.
  void destroy();
  // Before another thread may destroy it: this thread works for no object any more.
  void leave_thread();
  // The last call took so long that there may be news.
  bool was_long() const { return was_long_; }
  bool has_object() const { return object_ != nullptr; }

 private:
  class Context;
  void construct(Reader& reader, CreateHead& head);
  void settle_in(const CreateHead& head);
  void answer(bool is_good, const RemoteFailure& failure);
  Reader read(Frame& frame);
  bool invoke(Frame& frame, Writer& result);
  void send_failure(uint64_t id, const RemoteFailure& failure);

  Home& home_;
  VersionBook versions_;  // received, if home has no place for them
  std::unique_ptr<Context> context_;
  const ClassInfo* info_ = nullptr;
  void* object_ = nullptr;
  bool is_adopted_ = false, was_long_ = false;
  uint64_t current_ = 0;
};

}  // namespace parl::internal
