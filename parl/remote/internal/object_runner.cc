#include "parl/remote/internal/object_runner.h"

#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/wire/wire.h"

namespace parl::internal {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr auto kLongCall = std::chrono::microseconds(100);  // after such a call, look for news before the next
constexpr auto kNewsEvery = std::chrono::microseconds(500);

void check_same_class(const CreateHead& head, const ClassInfo& info) {
  const std::string own = fingerprint(info);
  if (own == head.fingerprint) return;
  throw_remote(RemoteErrorKind::kRefused, fmt::format("'{}' differs between the two programs\n  there: {}\n  here:  {}",
                                                      head.class_name, head.fingerprint, own));
}

const ConstructorInfo& find_constructor(const FactoryEntry& entry, const std::string& signature) {
  std::vector<std::string> offered;
  for (const auto& c : entry.constructors) {
    if (c.signature == signature) return c;
    offered.push_back(entry.info->name + c.signature);
  }
  throw_remote(RemoteErrorKind::kRefused,
               fmt::format("this program cannot build {}{}; it offers: {}. parl::offer<Class(arguments)>() offers more",
                           entry.info->name, signature, fmt::join(offered, ", ")));
}

}  // namespace

class ObjectRunner::Context : public ObjectThread {
 public:
  Context(const Placement& placement, ObjectRunner& runner) : ObjectThread(placement, nullptr), runner_(runner) {}
  bool stop_requested() override {
    const Time now = std::chrono::steady_clock::now();
    if (now >= next_look_) {
      next_look_ = now + kNewsEvery;
      runner_.home_.look_for_news();
    }
    return runner_.home_.is_given_up(runner_.current_);
  }

 private:
  ObjectRunner& runner_;
  Time next_look_{};
};

ObjectRunner::ObjectRunner(Home& home) : home_(home) {}
ObjectRunner::~ObjectRunner() = default;

void ObjectRunner::leave_thread() { context_.reset(); }

void ObjectRunner::send_failure(uint64_t id, const RemoteFailure& failure) {
  Writer writer;
  wire::save(writer, failure);
  home_.send(FrameKind::kFailure, id, std::move(writer), false);
}

void ObjectRunner::answer(bool is_good, const RemoteFailure& failure) {
  if (is_good) {
    home_.send(FrameKind::kCreated, 0, Writer(), false);
  } else {
    send_failure(0, failure);
  }
}

void ObjectRunner::settle_in(const CreateHead& head) {
  pin_to_cores(head.placement);
  context_ = std::make_unique<Context>(head.placement, *this);
  run_object_thread_hooks();
}

void ObjectRunner::construct(Reader& reader, CreateHead& head) {
  const FactoryEntry* entry = find_class(head.class_name);
  if (!entry)
    throw_remote(RemoteErrorKind::kRefused, fmt::format("this program cannot build '{}'; it offers: {}",
                                                        head.class_name, fmt::join(offered_classes(), ", ")));
  check_same_class(head, *entry->info);
  const ConstructorInfo& constructor = find_constructor(*entry, head.constructor);
  home_.prepare(head);
  settle_in(head);
  const ArrayAllocatorScope scope(home_.allocator());
  object_ = constructor.construct_wire(reader);
  info_ = entry->info;
}

void ObjectRunner::create(Frame frame) {
  RemoteFailure failure;
  try {
    PARL_CHECK(!frame.out_of_memory, "no memory for the constructor's arguments");
    Reader reader = read(frame);
    auto head = wire::load<CreateHead>(reader);
    construct(reader, head);
  } catch (const RemoteError& e) {
    failure = e.failure();
  } catch (...) {
    failure = describe_current_exception();
  }
  answer(object_ != nullptr, failure);
}

void ObjectRunner::adopt(const ClassInfo& info, void* object) {
  info_ = &info;
  object_ = object;
  is_adopted_ = true;
}

bool ObjectRunner::take(Frame frame) {
  RemoteFailure failure;
  bool is_good = false;
  try {
    Reader reader = frame.reader();
    auto head = wire::load<CreateHead>(reader);
    check_same_class(head, *info_);
    home_.prepare(head);
    settle_in(head);
    is_good = true;
  } catch (const RemoteError& e) {
    failure = e.failure();
  } catch (...) {
    failure = describe_current_exception();
  }
  answer(is_good, failure);
  return is_good;
}

Reader ObjectRunner::read(Frame& frame) {
  VersionReceiver* shared = home_.versions();
  return Reader(frame.head, frame.attachments, shared ? shared : &versions_);
}

// False: the call was given up before it began.
bool ObjectRunner::invoke(Frame& frame, Writer& result) {
  Reader reader = read(frame);
  const auto index = reader.number<uint32_t>();
  if (index >= info_->methods.size()) reader.fail("there is no method {}", index);
  const MethodInfo& method = info_->methods[index];
  if (home_.is_given_up(frame.id)) {
    if (!home_.versions()) method.skip_wire(reader);  // later calls may refer to what is in it
    return false;
  }
  const ArrayAllocatorScope scope(home_.allocator());
  method.invoke_wire(object_, reader, result);
  try {
    check_frame_size(result);
  } catch (...) {
    rethrow_as_coding("the result");
  }
  return true;
}

void ObjectRunner::call(Frame frame) {
  const Time start = std::chrono::steady_clock::now();
  current_ = frame.id;
  Writer result;
  bool is_good = false;
  RemoteFailure failure;
  if (frame.out_of_memory) {
    failure = make_failure(RemoteErrorKind::kSerialize, "no memory for the arguments");
  } else {
    try {
      is_good = invoke(frame, result);
      if (!is_good) failure = make_failure(RemoteErrorKind::kCancelled, "the call was given up before it began");
    } catch (...) {
      failure = describe_current_exception();
    }
  }
  if (is_good) {
    home_.send(FrameKind::kResult, frame.id, std::move(result), true);
  } else {
    send_failure(frame.id, failure);
  }
  was_long_ = std::chrono::steady_clock::now() - start > kLongCall;
}

void ObjectRunner::destroy() {
  if (!object_ || is_adopted_) return;
  const ArrayAllocatorScope scope(home_.allocator());
  try {
    info_->destroy(object_);
  } catch (...) {
    log().error("the destructor of {} threw: {}", info_->name, describe_current_exception().message);
  }
  object_ = nullptr;
}

}  // namespace parl::internal
