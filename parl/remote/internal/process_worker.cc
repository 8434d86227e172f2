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
#include "parl/remote/internal/object_runner.h"
#include "parl/remote/internal/process_engine.h"
#include "parl/remote/internal/process_protocol.h"
#include "parl/remote/internal/slab_port.h"
#include "parl/remote/internal/spawn.h"
#include "parl/wire/wire.h"

namespace parl::internal {
namespace {

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

class Worker final : public ObjectRunner::Home {
 public:
  explicit Worker(int fd)
      : fd_(fd),
        port_(0),
        reader_(
            {}, [this](const AttachmentPlace& place) { return port_.arrive(place); }, true) {}
  void run();

  void send(FrameKind kind, uint64_t id, Writer&& writer, bool may_take) override;
  bool is_given_up(uint64_t id) override {
    return stop_ || closed_ || std::find(given_up_.begin(), given_up_.end(), id) != given_up_.end();
  }
  void look_for_news() override;
  ArrayAllocator* allocator() override { return port_.allocator(); }
  void prepare(CreateHead& head) override { port_.set_limit(head.slab_bytes); }

 private:
  bool next_frame(Frame& out);
  void accept(Frame frame);
  void call(Frame frame);
  void serve();

  const int fd_;
  SlabPort port_;
  FrameReader reader_;
  FrameSender sender_;
  ObjectRunner runner_{*this};
  std::deque<Frame> queue_;
  std::vector<uint64_t> given_up_;
  bool stop_ = false, closed_ = false;
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
  if (runner_.was_long()) look_for_news();
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

void Worker::send(FrameKind kind, uint64_t id, Writer&& writer, bool may_take) {
  OutgoingFrame frame = port_.pack(static_cast<uint8_t>(kind), id, writer, may_take);
  for (OutgoingFrame& slab : port_.announce(static_cast<uint8_t>(FrameKind::kSlab))) sender_.send(fd_, std::move(slab));
  auto sent = sender_.send(fd_, std::move(frame), [] { return nullptr; });  // flushed before we return: nothing to keep
  while (sent == FrameSender::Sent::kPending) sent = sender_.flush(fd_);
  if (sent == FrameSender::Sent::kClosed) closed_ = true;
}

void Worker::call(Frame frame) {
  const uint64_t number = frame.id;
  runner_.call(std::move(frame));
  std::erase_if(given_up_, [&](uint64_t id) { return id <= number; });
}

void Worker::serve() {
  Frame frame;
  while (next_frame(frame)) {
    const auto kind = static_cast<FrameKind>(frame.kind);
    if (kind == FrameKind::kCreate) {
      PARL_CHECK(!runner_.has_object(), "a worker holds one object");
      runner_.create(std::move(frame));
      if (!runner_.has_object()) return;
    } else if (kind == FrameKind::kCall) {
      PARL_CHECK(runner_.has_object(), "a call before the object");
      call(std::move(frame));
    } else {
      return;
    }
  }
}

void Worker::run() {
  Writer hello;
  wire::save(hello, Hello{kProtocolVersion, ::getpid()});
  send(FrameKind::kHello, 0, std::move(hello), false);
  serve();
  if (!runner_.has_object()) return;
  runner_.destroy();
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
