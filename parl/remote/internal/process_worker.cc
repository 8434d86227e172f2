// The worker's side of the process engine: one object, on the main thread of a process of its own.
//
// The main thread reads the socket itself, runs the method, and answers: no hand-over between threads. A second thread
// waits for nothing but the learner's end (the socket's hang-up, or its pidfd, in case somebody else holds the socket),
// and ends the process when the main thread is too busy to notice.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <thread>

#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/remote/internal/context.h"
#include "parl/remote/internal/process_engine.h"
#include "parl/remote/internal/process_protocol.h"
#include "parl/remote/internal/slab_port.h"
#include "parl/remote/internal/spawn.h"
#include "parl/wire/wire.h"

namespace parl::internal {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr auto kLongCall = std::chrono::microseconds(100);  // after such a call, look for news before the next
constexpr auto kNewsEvery = std::chrono::microseconds(500);
constexpr int kGraceMs = 500;  // for the object's destructor once the learner is gone

// Ends the process soon after the learner's end, whatever the main thread is doing.
class LearnerGuard {
 public:
  explicit LearnerGuard(int socket) : learner_(open_pidfd(::getppid())), stop_(::eventfd(0, EFD_CLOEXEC)) {
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this, socket] { run(socket); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::pthread_setname_np(thread_.native_handle(), "parl-guard");
  }
  ~LearnerGuard() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
    thread_.join();
  }

 private:
  void run(int socket) {
    pollfd fds[3] = {{stop_.get(), POLLIN, 0}, {socket, 0, 0}, {learner_.get(), POLLIN, 0}};
    while (::poll(fds, 3, -1) < 0) {
    }
    if (fds[0].revents) return;
    if (::poll(fds, 1, kGraceMs) == 1) return;  // the main thread has noticed and leaves
    ::_exit(EXIT_FAILURE);
  }

  UniqueFd learner_, stop_;
  std::thread thread_;
};

class Worker {
 public:
  explicit Worker(int fd)
      : fd_(fd),
        port_(0),
        reader_(
            {}, [this](const AttachmentPlace& place) { return port_.arrive(place); }, true) {}
  void run();

 private:
  class Context;

  bool next_frame(Frame& out);
  void look_for_news();
  void accept(Frame frame);
  void create(Frame frame);
  void construct(Reader& reader, const CreateHead& head);
  void serve();
  void call(Frame frame);
  bool invoke(Frame& frame, Writer& result);
  void destroy();
  void send(FrameKind kind, uint64_t id, const Writer& writer, bool may_take);
  void send_failure(uint64_t id, const RemoteFailure& failure);
  bool is_given_up(uint64_t id) const {
    return stop_ || closed_ || std::find(given_up_.begin(), given_up_.end(), id) != given_up_.end();
  }

  const int fd_;
  SlabPort port_;
  FrameReader reader_;
  FrameSender sender_;
  VersionBook versions_;  // received
  std::deque<Frame> queue_;
  std::vector<uint64_t> given_up_;
  bool stop_ = false, closed_ = false, was_long_ = false;
  std::unique_ptr<Context> context_;
  const ClassInfo* info_ = nullptr;
  void* object_ = nullptr;
  uint64_t current_ = 0;
};

class Worker::Context : public ObjectThread {
 public:
  Context(const Placement& placement, Worker& worker) : ObjectThread(placement, nullptr), worker_(worker) {}
  bool stop_requested() override {
    const Time now = std::chrono::steady_clock::now();
    if (now >= next_look_) {
      next_look_ = now + kNewsEvery;
      worker_.look_for_news();
    }
    return worker_.is_given_up(worker_.current_);
  }

 private:
  Worker& worker_;
  Time next_look_{};
};

void Worker::accept(Frame frame) {
  switch (static_cast<FrameKind>(frame.kind)) {
    case FrameKind::kSlab: {
      UniqueFd fd = reader_.take_descriptor();
      PARL_CHECK(fd, "a slab was announced without its descriptor");
      return port_.add_peer_slab(std::move(fd));
    }
    case FrameKind::kGiveUp:
      given_up_.push_back(frame.id);
      return;
    case FrameKind::kStop:
      stop_ = true;
      [[fallthrough]];
    case FrameKind::kCreate:
    case FrameKind::kCall:
    case FrameKind::kGoodbye:
      queue_.push_back(std::move(frame));
      return;
    default:
      throw WireError(fmt::format("the learner sent a frame of unknown kind {}", frame.kind));
  }
}

// The next frame in order. False: the learner has gone.
bool Worker::next_frame(Frame& out) {
  Frame frame;
  while (queue_.empty()) {
    if (closed_ || reader_.next(fd_, frame) == FrameReader::Got::kClosed) {
      closed_ = true;
      return false;
    }
    accept(std::move(frame));
  }
  while (reader_.next_buffered(frame)) accept(std::move(frame));  // a call may be given up further behind
  if (was_long_) look_for_news();
  out = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void Worker::look_for_news() {
  Frame frame;
  while (!closed_) {
    const auto got = reader_.next(fd_, frame, false);
    if (got == FrameReader::Got::kNothing) return;
    if (got == FrameReader::Got::kClosed) {
      closed_ = true;
      return;
    }
    accept(std::move(frame));
  }
}

void Worker::send(FrameKind kind, uint64_t id, const Writer& writer, bool may_take) {
  OutgoingFrame frame = port_.pack(static_cast<uint8_t>(kind), id, writer, may_take);
  for (OutgoingFrame& slab : port_.announce(static_cast<uint8_t>(FrameKind::kSlab))) sender_.send(fd_, std::move(slab));
  auto sent = sender_.send(fd_, std::move(frame), [] { return nullptr; });  // flushed before we return: nothing to keep
  while (sent == FrameSender::Sent::kPending) sent = sender_.flush(fd_);
  if (sent == FrameSender::Sent::kClosed) closed_ = true;
}

void Worker::send_failure(uint64_t id, const RemoteFailure& failure) {
  Writer writer;
  wire::save(writer, failure);
  send(FrameKind::kFailure, id, writer, false);
}

void Worker::construct(Reader& reader, const CreateHead& head) {
  const FactoryEntry* entry = find_class(head.class_name);
  if (!entry)
    throw_remote(RemoteErrorKind::kRefused, fmt::format("this program cannot build '{}'; it offers: {}",
                                                        head.class_name, fmt::join(offered_classes(), ", ")));
  const std::string own = fingerprint(*entry->info);
  if (own != head.fingerprint)
    throw_remote(RemoteErrorKind::kRefused,
                 fmt::format("'{}' differs between the two programs\n  there: {}\n  here:  {}", head.class_name,
                             head.fingerprint, own));
  const ConstructorInfo* constructor = nullptr;
  for (const auto& c : entry->constructors)
    if (c.signature == head.constructor) constructor = &c;
  PARL_CHECK(constructor, "'{}' has no constructor {}", head.class_name, head.constructor);
  port_.set_limit(head.slab_bytes);
  pin_to_cores(head.placement);
  context_ = std::make_unique<Context>(head.placement, *this);
  run_object_thread_hooks();
  const ArrayAllocatorScope scope(port_.allocator());
  object_ = constructor->construct_wire(reader);
  info_ = entry->info;
}

void Worker::create(Frame frame) {
  RemoteFailure failure;
  try {
    Reader reader = frame.reader();
    const auto head = wire::load<CreateHead>(reader);
    PARL_CHECK(!frame.out_of_memory, "no memory for the constructor's arguments");
    construct(reader, head);
  } catch (const RemoteError& e) {
    failure = e.failure();
  } catch (...) {
    failure = describe_current_exception();
  }
  if (object_) {
    send(FrameKind::kCreated, 0, Writer(), false);
  } else {
    send_failure(0, failure);
  }
}

// False: the call was given up before it began.
bool Worker::invoke(Frame& frame, Writer& result) {
  Reader reader(frame.head, frame.attachments, &versions_);
  const auto index = reader.number<uint32_t>();
  if (index >= info_->methods.size()) reader.fail("there is no method {}", index);
  const MethodInfo& method = info_->methods[index];
  if (is_given_up(frame.id)) {
    method.skip_wire(reader);
    return false;
  }
  const ArrayAllocatorScope scope(port_.allocator());
  method.invoke_wire(object_, reader, result);
  try {
    check_frame_size(result);
  } catch (...) {
    rethrow_as_coding("the result");
  }
  return true;
}

void Worker::call(Frame frame) {
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
    send(FrameKind::kResult, frame.id, result, true);
  } else {
    send_failure(frame.id, failure);
  }
  std::erase_if(given_up_, [&](uint64_t id) { return id <= frame.id; });
  was_long_ = std::chrono::steady_clock::now() - start > kLongCall;
}

void Worker::destroy() {
  const ArrayAllocatorScope scope(port_.allocator());
  try {
    info_->destroy(object_);
  } catch (...) {
    log().error("the destructor of {} threw: {}", info_->name, describe_current_exception().message);
  }
  object_ = nullptr;
}

void Worker::serve() {
  Frame frame;
  while (next_frame(frame)) {
    const auto kind = static_cast<FrameKind>(frame.kind);
    if (kind == FrameKind::kCreate) {
      PARL_CHECK(!object_, "a worker holds one object");
      create(std::move(frame));
      if (!object_) return;
    } else if (kind == FrameKind::kCall) {
      PARL_CHECK(object_, "a call before the object");
      call(std::move(frame));
    } else {
      return;
    }
  }
}

void Worker::run() {
  Writer hello;
  wire::save(hello, Hello{kProtocolVersion, ::getpid()});
  send(FrameKind::kHello, 0, hello, false);
  serve();
  if (!object_) return;
  destroy();
  std::fflush(nullptr);
  if (!closed_) send(FrameKind::kGone, 0, Writer(), false);
}

}  // namespace

void run_process_worker(int fd) {
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);  // the worker's own children shall not hold the connection
  ::signal(SIGINT, SIG_IGN);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  int status = EXIT_SUCCESS;
  {
    LearnerGuard guard(fd);
    try {
      Worker(fd).run();
    } catch (const std::exception& e) {
      log().error("worker process ends: {}", e.what());
      status = EXIT_FAILURE;
    }
  }
  std::exit(status);
}

}  // namespace parl::internal
