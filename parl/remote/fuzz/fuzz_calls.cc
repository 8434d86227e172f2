// An object channel whose worker answers with anything, and a worker's object whose learner asks for anything. Every
// call that the channel took ends, in a value or an error.
#include <exception>

#include "parl/remote/fuzz/fuzz.h"
#include "parl/remote/internal/object_runner.h"
#include "parl/remote/internal/wire_channel.h"
#include "parl/remote/remote.h"

namespace parl::fuzz {

struct Item {
  int32_t number = 0;
  std::vector<std::string> words;
};
PARL_FIELDS(Item, number, words);

class Subject {
 public:
  explicit Subject(const std::string& name = "") : name_(name) {}
  int sum(int a, int b) const { return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)); }
  Array array(Array a) { return a; }
  std::string text(const std::string& s) { return name_ + s; }
  std::map<std::string, std::optional<Item>> items(std::map<std::string, std::optional<Item>> m) { return m; }
  int64_t version(const Versioned<Array>& v) const { return v.has_value() ? v->size() : v.version(); }
  void nothing() {}
  void fail(const std::string& why) { raise("{}", why); }

 private:
  std::string name_;
};
PARL_REMOTE_CLASS(Subject, sum, array, text, items, version, nothing, fail);

namespace {

using namespace parl::internal;  // NOLINT: this is a test of its insides

using D = Description<Subject>;

Frame take_frame(Source& source) {
  Frame frame;
  const uint8_t kind = source.byte();
  frame.kind = kind < 200 ? kind % 16 : kind;
  frame.id = source.byte();
  if (frame.id == 255) frame.id = source.number<uint64_t>();
  frame.attachments = take_attachments(source);
  for (const ReceivedAttachment& attachment : frame.attachments) frame.places.push_back({attachment.bytes, 0, 0, 0});
  frame.out_of_memory = kind == 199;
  frame.head = copy_bytes(source.take(source.byte()));
  return frame;
}

// ---- the learner's side ----

class HostileLink final : public ObjectLink {
 public:
  explicit HostileLink(Source& source) : source_(source) {}
  void set_listener(ObjectLink::Listener* listener) { listener_ = listener; }

  using ObjectLink::send;
  std::vector<AttachmentPlace> send(FrameKind kind, uint64_t, const Writer& writer, bool, const Keep& keep) override {
    if (kind == FrameKind::kTake) answer();
    if (!keep || !source_.byte()) return {};
    kept_.push_back(keep());  // the socket did not take it all
    return std::vector<AttachmentPlace>(writer.attachments().size());
  }
  // A frame of the other end. Garbage ends the connection, as the engine does it.
  void deliver(Frame frame) {
    if (!listener_) return;
    try {
      listener_->on_frame(std::move(frame));
    } catch (const std::exception&) {
      end();
    }
  }
  void end() {
    if (auto* listener = std::exchange(listener_, nullptr)) listener->on_end();
    send_off();  // what waits is dropped with its socket
  }
  void send_off() { kept_.clear(); }

  void give_up() override { listener_ = nullptr; }
  void cut() override { is_cut_ = true; }
  void expect_end() override { listener_ = nullptr; }
  bool wait_ended(TimePoint) override { return true; }
  std::string end_text() const override { return "is gone"; }
  int64_t pid() const override { return 1; }
  const std::string& host() const override { return host_; }

 private:
  void answer() {
    const uint8_t how = source_.byte();
    Frame frame = how < 128 ? Frame() : take_frame(source_);
    if (how < 128) frame.kind = static_cast<uint8_t>(FrameKind::kCreated);
    deliver(std::move(frame));
  }

  Source& source_;
  ObjectLink::Listener* listener_ = nullptr;
  std::vector<std::shared_ptr<const void>> kept_;
  bool is_cut_ = false;
  const std::string host_ = "elsewhere";
};

CallRef make_call(Source& source) {
  switch (source.byte() % 7) {
    case 0:
      return MethodCall<Subject, D::Method_sum>::make(1, 2);
    case 1:
      return MethodCall<Subject, D::Method_array>::make(Array(DType::kU8, {source.number<uint16_t>() * int64_t{2}}));
    case 2:
      return MethodCall<Subject, D::Method_text>::make(std::string(source.byte(), 'x'));
    case 3:
      return MethodCall<Subject, D::Method_items>::make(std::map<std::string, std::optional<Item>>{{"a", Item{}}});
    case 4:
      return MethodCall<Subject, D::Method_version>::make(Versioned<Array>(1, Array()));
    case 5:
      return MethodCall<Subject, D::Method_nothing>::make();
    default:
      return MethodCall<Subject, D::Method_fail>::make(std::string("why"));
  }
}

void give_up(Call& call) {
  call.give_up();
  call.fail(make_failure(RemoteErrorKind::kCancelled, "given up"));
  call.channel()->given_up(call);
}

void act(Source& source, WireChannel& channel, HostileLink& link, std::vector<CallRef>& calls) {
  const uint8_t action = source.byte() % 16;
  if (action < 6) {
    CallRef call = make_call(source);
    call->set_channel(channel.shared_from_this());
    if (channel.submit(CallRef::share(call.get()), kNoWait)) calls.push_back(std::move(call));
  } else if (action < 11) {
    link.deliver(take_frame(source));
  } else if (action == 11) {
    link.send_off();
  } else if (action == 12 && !calls.empty()) {
    give_up(*calls[source.byte() % calls.size()]);
  } else if (action == 13) {
    channel.goodbye();
  } else if (action == 14) {
    link.end();
  } else if (action == 15) {
    channel.stop();
  }
}

void hostile_worker(Source source) {
  auto shared = std::make_shared<ManagerShared>();
  auto link = std::make_shared<HostileLink>(source);
  CreateRequest request;
  request.info = &class_info<Subject>();
  request.placement.name = "Subject#0";
  request.deadline = kNoWait;
  request.is_taken = true;
  auto channel = std::make_shared<WireChannel>(request, shared, link);
  link->set_listener(channel.get());
  std::vector<CallRef> calls;
  try {
    channel->build(request);
    while (!source.empty()) act(source, *channel, *link, calls);
  } catch (const RemoteError&) {  // there is no object
  }
  channel->stop();
  link->end();
  for (const CallRef& call : calls) {
    require(call->ready(), "a call ends in a value or an error");
    try {
      call->settle();
    } catch (const RemoteError& error) {
      require(!std::string(error.what()).empty(), "an error says something");
    }
  }
}

// ---- the worker's side ----

class QuietHome final : public ObjectRunner::Home {
 public:
  void send(FrameKind kind, uint64_t, Writer&& writer, bool) override {
    last_ = kind;
    bytes_ += writer.total_bytes();
  }
  bool is_given_up(uint64_t id) override { return id % 7 == 6; }
  ArrayAllocator* allocator() override { return nullptr; }
  FrameKind last() const { return last_; }

 private:
  FrameKind last_ = FrameKind::kHello;
  size_t bytes_ = 0;
};

void hostile_learner(Source source) {
  const auto constructor = make_constructor_call<Subject>(std::string("subject"));
  QuietHome home;
  ObjectRunner runner(home);
  Writer writer;
  wire::save(writer, CreateHead{class_info<Subject>().name, fingerprint(class_info<Subject>()),
                                constructor->constructor().signature, Placement{}, 0});
  Frame create = take_frame(source);
  const auto head = writer.head();
  create.head.insert(create.head.begin(), head.begin(), head.end());
  create.out_of_memory = false;
  runner.create(std::move(create));
  require(home.last() == (runner.has_object() ? FrameKind::kCreated : FrameKind::kFailure), "a creation is answered");
  while (runner.has_object() && !source.empty()) {
    runner.call(take_frame(source));
    require(home.last() == FrameKind::kResult || home.last() == FrameKind::kFailure, "a call is answered");
  }
  runner.destroy();
}

}  // namespace

void calls(Input data) {
  Source source(data);
  if (source.byte() % 2) {
    hostile_learner(source);
  } else {
    hostile_worker(source);
  }
}

}  // namespace parl::fuzz
