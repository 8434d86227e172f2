#include "parl/remote/internal/hosted_object.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>

#include "parl/core/check.h"
#include "parl/core/log.h"

namespace parl::internal {
namespace {

constexpr uint64_t kMostQueued = uint64_t{64} << 20;  // bytes of results that wait for the network

// Made when an object asks for its own, below it.
const std::string& workers_directory() {
  static const std::string& path =
      *new std::string((std::filesystem::temp_directory_path() /
                        fmt::format("parl-worker-{}-{:08x}", ::getpid(), std::random_device()()))
                           .string());
  return path;
}

}  // namespace

void HostedObject::deliver(Frame frame) {
  std::lock_guard lock(mutex_);
  switch (static_cast<FrameKind>(frame.kind)) {
    case FrameKind::kGiveUp:
      given_up_.push_back(frame.id);
      given_up_count_ = given_up_.size();
      return;
    case FrameKind::kStop:
      is_stopped_ = true;
      break;
    case FrameKind::kCreate:
    case FrameKind::kTake:
    case FrameKind::kCall:
    case FrameKind::kGoodbye:
      break;
    default:
      throw WireError(fmt::format("the learner sent a frame of unknown kind {}", frame.kind));
  }
  queue_.push_back(std::move(frame));
  arrived_.notify_one();
}

void HostedObject::cut_off() {
  std::lock_guard lock(mutex_);
  is_cut_off_ = true;
  arrived_.notify_one();
}

void HostedObject::drop(std::shared_ptr<const void> value) {
  std::lock_guard lock(mutex_);
  dropped_.push_back(std::move(value));
  arrived_.notify_one();
}

bool HostedObject::is_given_up(uint64_t id) {
  if (is_stopped_ || is_cut_off_) return true;
  if (given_up_count_ == 0) return false;
  std::lock_guard lock(mutex_);
  return std::find(given_up_.begin(), given_up_.end(), id) != given_up_.end();
}

// The learner's directory may be on another machine; the learner would not remove what were made of that name here.
void HostedObject::prepare(CreateHead& head) {
  const std::filesystem::path there(head.placement.directory);
  std::error_code error;
  if (!there.empty() && !std::filesystem::is_directory(there.parent_path(), error)) {
    static std::atomic<uint64_t> count{0};
    own_directory_ = workers_directory() + fmt::format("/{}-{}", ++count, there.filename().string());
    head.placement.directory = own_directory_;
  }
  if (!pool_) pool_ = std::make_unique<ArrayPool>(head.slab_bytes);
}

void HostedObject::send(FrameKind kind, uint64_t id, Writer&& writer, bool may_take) {
  (void)may_take;
  const bool is_last = kind == FrameKind::kGone || (kind == FrameKind::kFailure && id == 0);
  if (is_last && on_leaving_) std::exchange(on_leaving_, nullptr)();
  connection_->send(number_, static_cast<uint8_t>(kind), id, writer,
                    [&] { return std::make_shared<Writer>(std::move(writer)); });
  connection_->wait_sent(number_, kMostQueued);
}

void HostedObject::remove_directory() {
  if (own_directory_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(own_directory_, ignored);
  ::rmdir(workers_directory().c_str());  // unless others have theirs there
}

// False: the connection has ended.
bool HostedObject::next(Frame& out) {
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [&] { return is_cut_off_ || !queue_.empty() || !dropped_.empty(); });
    if (is_cut_off_) return false;
    if (dropped_.empty()) break;
    auto dropped = std::exchange(dropped_, {});
    lock.unlock();
    dropped.clear();
    lock.lock();
  }
  out = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

HostedObject::End HostedObject::serve_all() {
  Frame frame;
  while (next(frame)) {
    const auto kind = static_cast<FrameKind>(frame.kind);
    const uint64_t id = frame.id;
    if (kind == FrameKind::kCreate && !runner_.has_object()) {
      runner_.create(std::move(frame));
      if (!runner_.has_object()) return End::kCutOff;  // it has said so
    } else if (kind == FrameKind::kTake && runner_.has_object()) {
      if (!runner_.take(std::move(frame))) return End::kCutOff;
    } else if (kind == FrameKind::kCall && runner_.has_object()) {
      runner_.call(std::move(frame));
    } else {
      return End::kGoodbye;
    }
    if (given_up_count_ == 0) continue;
    std::lock_guard lock(mutex_);
    std::erase_if(given_up_, [&](uint64_t given_up) { return given_up <= id; });
    given_up_count_ = given_up_.size();
  }
  return End::kCutOff;
}

// The last to hold an object may be another thread: this one's context does not wait for it.
struct HostedObject::Leaving {
  ~Leaving() {
    object.runner_.leave_thread();
    object.remove_directory();
  }
  HostedObject& object;
};

HostedObject::End HostedObject::serve() {
  const Leaving leaving{*this};
  const End end = serve_all();
  if (!runner_.has_object()) return end;
  runner_.destroy();
  std::fflush(nullptr);
  send(FrameKind::kGone, 0, Writer(), false);  // does nothing when it is cut off
  return end;
}

HostedObject::End HostedObject::serve(const ClassInfo& info, void* object) {
  const Leaving leaving{*this};
  runner_.adopt(info, object);
  const End end = serve_all();
  if (end == End::kGoodbye) send(FrameKind::kGone, 0, Writer(), false);
  return end;
}

}  // namespace parl::internal
