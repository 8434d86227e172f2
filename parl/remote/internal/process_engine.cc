#include "parl/remote/internal/process_engine.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <numeric>
#include <set>

#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/remote/internal/context.h"
#include "parl/remote/internal/process_link.h"
#include "parl/remote/internal/wire_channel.h"

namespace parl::internal {
namespace {

class ProcessEngine final : public Engine {
 public:
  explicit ProcessEngine(std::shared_ptr<ManagerShared> shared)
      : shared_(std::move(shared)), forks_(fork_generation()) {
    raise_descriptor_limit();
    loop_ = std::make_unique<IoLoop>();
    fill_spares();
  }

  ~ProcessEngine() override {
    if (in_forked_child(forks_)) {
      loop_.release();  // its thread is in the parent
    } else if (!is_shut_down()) {
      shutdown(deadline_in(shared_->options.shutdown_timeout));
    }
  }

  std::shared_ptr<ObjectChannel> create(CreateRequest request) override;
  void shutdown(TimePoint deadline) override;

 private:
  using Link = std::shared_ptr<ProcessLink>;

  Link start(const std::string& name, const Placement& placement);
  Link take_spare();
  void fill_spares();
  void await_hello(const CreateRequest& request, ProcessLink& link) const;
  void check_open() const;
  bool is_shut_down() const;
  void forget(ProcessLink& link);

  const std::shared_ptr<ManagerShared> shared_;
  const int64_t forks_;
  std::unique_ptr<IoLoop> loop_;

  mutable std::mutex mutex_;
  bool closed_ = false;
  int started_spares_ = 0;
  std::deque<Link> spares_;
  std::set<Link> links_;  // every process that has not been collected
  std::vector<std::weak_ptr<WireChannel>> channels_;
};

std::string log_file(const Placement& placement) {
  return placement.directory.empty() ? "" : placement.directory + "/worker.log";
}

void ProcessEngine::check_open() const {
  if (closed_) throw_remote(RemoteErrorKind::kClosed, "the manager is closed");
}

bool ProcessEngine::is_shut_down() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

void ProcessEngine::forget(ProcessLink& link) {
  std::lock_guard lock(mutex_);
  links_.erase(link.shared_from_this());
}

ProcessEngine::Link ProcessEngine::start(const std::string& name, const Placement& placement) {
  ProcessLink::Settings settings;
  settings.spawn.arguments = {kWorkerOption, fmt::format("fd:{}", kWorkerSocket)};
  if (!placement.gpus.empty())
    settings.spawn.environment = {{"CUDA_VISIBLE_DEVICES", shared_->gpus.visible(placement.gpus)}};
  settings.name = name;
  settings.log_file = log_file(placement);
  settings.slab_bytes = shared_->options.slab_bytes;
  settings.on_collected = [this](ProcessLink& link) { forget(link); };
  std::lock_guard lock(mutex_);  // also: it must not be collected before it is listed
  check_open();
  Link link = ProcessLink::start(*loop_, std::move(settings));
  links_.insert(link);
  return link;
}

ProcessEngine::Link ProcessEngine::take_spare() {
  std::lock_guard lock(mutex_);
  while (!spares_.empty()) {
    Link link = std::move(spares_.front());
    spares_.pop_front();
    if (!link->ended()) return link;
    log().warn("a spare worker process {} before it was used", link->end_text());
  }
  return nullptr;
}

void ProcessEngine::fill_spares() {
  for (;;) {
    std::string name;
    {
      std::lock_guard lock(mutex_);
      if (closed_ || static_cast<int>(spares_.size()) >= shared_->options.spares) return;
      name = fmt::format("spare {}", ++started_spares_);
    }
    Link link = start(name, {});
    std::lock_guard lock(mutex_);
    spares_.push_back(std::move(link));
  }
}

void ProcessEngine::await_hello(const CreateRequest& request, ProcessLink& link) const {
  const TimePoint by = std::min(request.deadline, deadline_in(shared_->options.hello_timeout));
  const auto hello = link.wait_hello(by);
  if (hello == ProcessLink::Hello::kArrived) return;
  link.terminate();
  std::string message;
  if (hello == ProcessLink::Hello::kEnded) {
    message =
        fmt::format("the process of {}, before its first sign of life, {}", request.placement.name, link.end_text());
  } else {
    message = fmt::format(
        "the process of {} (pid {}) gave no sign of life in {} ms and is ended; is parl::init(argc, argv) the first "
        "statement of main?",
        request.placement.name, link.pid(), shared_->options.hello_timeout.count());
    const std::string lines = link.last_lines();
    if (!lines.empty()) message += "; its last lines:\n" + lines;
  }
  RemoteFailure failure =
      make_failure(hello == ProcessLink::Hello::kEnded ? RemoteErrorKind::kLost : RemoteErrorKind::kTimeout, message);
  failure.class_name = request.info->name;
  failure.object = request.placement.name;
  failure.pid = link.pid();
  throw RemoteError(std::move(failure));
}

std::shared_ptr<ObjectChannel> ProcessEngine::create(CreateRequest request) {
  std::vector<int>& devices = request.placement.devices;
  std::iota(devices.begin(), devices.end(), 0);          // its process sees no others
  Link link = devices.empty() ? take_spare() : nullptr;  // a spare's devices are settled already
  if (!link) link = start(request.placement.name, request.placement);
  await_hello(request, *link);
  auto channel = std::make_shared<WireChannel>(request, shared_, link);
  {
    std::lock_guard lock(mutex_);
    check_open();
    std::erase_if(channels_, [](const auto& c) { return c.expired(); });
    channels_.push_back(channel);
  }
  link->attach(channel, request.placement.name, log_file(request.placement));
  channel->build(request);
  try {
    fill_spares();
  } catch (const std::exception& e) {
    log().warn("no spare worker process: {}", e.what());
  }
  return channel;
}

void ProcessEngine::shutdown(TimePoint deadline) {
  if (in_forked_child(forks_)) return;
  std::vector<Link> links;
  std::vector<std::shared_ptr<WireChannel>> channels;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    spares_.clear();
    links.assign(links_.begin(), links_.end());
    for (const auto& weak : channels_)
      if (auto channel = weak.lock()) channels.push_back(std::move(channel));
  }
  for (const auto& channel : channels) channel->stop();
  for (const Link& link : links) link->send(FrameKind::kStop);  // also to those that have no object
  const TimePoint now = std::chrono::steady_clock::now();
  const TimePoint half =
      deadline == kForever ? kForever : now + std::max(deadline - now, TimePoint::duration::zero()) / 2;
  for (const Link& link : links)
    if (!link->wait_ended(half)) link->terminate();
  for (const Link& link : links) {
    if (link->wait_ended(deadline)) continue;
    log().error("worker process {} did not end in time and is killed", link->pid());
    link->kill();
  }
  for (const Link& link : links) link->wait_ended(kForever);
  links.clear();
  channels.clear();
  loop_.reset();  // joins: no handler runs any more
}

}  // namespace

std::unique_ptr<Engine> make_process_engine(std::shared_ptr<ManagerShared> shared) {
  return std::make_unique<ProcessEngine>(std::move(shared));
}

}  // namespace parl::internal
