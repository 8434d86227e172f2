#include "parl/remote/internal/tcp_engine.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/remote/internal/context.h"
#include "parl/remote/internal/io_loop.h"
#include "parl/remote/internal/spawn.h"
#include "parl/remote/internal/status.h"
#include "parl/remote/internal/tcp_choice.h"
#include "parl/remote/internal/tcp_peer.h"
#include "parl/remote/internal/wire_channel.h"

namespace parl::internal {
namespace {

constexpr size_t kMostStrangers = 256;                    // connections that have not said who they are
constexpr auto kStrangersTime = std::chrono::seconds(1);  // before it must make room for others
constexpr int kMostAtOnce = 64;                           // connections taken before others have their turn
constexpr auto kFarewell = std::chrono::seconds(2);       // for what was sent last
constexpr auto kListenLater = std::chrono::milliseconds(100);
constexpr auto kComplainEvery = std::chrono::seconds(5);
constexpr auto kNewsEvery = std::chrono::milliseconds(200);

class TcpEngine final : public Engine, public TcpPeer::Owner {
 public:
  explicit TcpEngine(std::shared_ptr<ManagerShared> shared);
  ~TcpEngine() override;

  std::shared_ptr<ObjectChannel> create(CreateRequest request) override;
  std::shared_ptr<ObjectChannel> take(CreateRequest request) override;
  RemoteSlots slots(const RemoteSlots& book) override;
  bool hands_out_gpus() const override { return true; }
  void describe(ManagerStatus& status) override;
  void shutdown(TimePoint deadline) override;

  void on_ready(const std::shared_ptr<TcpPeer>& peer) override;
  void on_place_free() override;
  void on_refused(const std::string& where, const std::string& text) override;
  void on_stranger_gone(const std::string& where, const std::string& why) override;
  void on_gone(const std::shared_ptr<TcpPeer>& peer, const std::string& loss) override;
  const ManagerStatus& on_ask() override;

 private:
  using Peer = std::shared_ptr<TcpPeer>;
  using Link = std::shared_ptr<TcpObjectLink>;
  // A connection that has not said who it is.
  struct Stranger {
    Peer peer;
    std::string source;  // its machine
    TimePoint since;
    bool is_leaving = false;
  };

  void on_connection(int listener);
  bool make_room();
  void admit(UniqueFd socket);
  void turn_away(int listener, int error);
  void listen_later(int listener);
  void complain(const std::string& text);
  void judge_stranger(const std::weak_ptr<TcpPeer>& peer);
  void forget_stranger(const Peer& peer) {
    std::erase_if(strangers_, [&](const Stranger& stranger) { return stranger.peer == peer; });
  }
  void check_open() const;
  std::string last_refusal(const char* whose) const;
  template <typename Choose, typename Explain>
  Link await(const CreateRequest& request, Choose&& choose, Explain&& explain);
  std::shared_ptr<ObjectChannel> begin(const CreateRequest& request, const Link& link);
  std::set<Peer> await_objects(const std::vector<std::shared_ptr<WireChannel>>& channels, TimePoint deadline);

  const std::shared_ptr<ManagerShared> shared_;
  const int64_t forks_;
  const Security security_;
  Address address_;
  std::vector<UniqueFd> listeners_;
  std::vector<uint64_t> listener_watches_;
  UniqueFd reserve_;        // closed for a moment to turn somebody away when descriptors have run out; the loop's
  TimePoint complained_{};  // this and the next are the loop's
  int unsaid_ = 0;          // complaints since then
  ManagerStatus news_;      // what observers are told; this and the next are the loop's
  TimePoint told_{};
  std::unique_ptr<IoLoop> loop_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::vector<Stranger> strangers_;  // both in the order of their coming
  std::vector<Peer> peers_;
  std::string last_refusal_;
  std::deque<std::string> losses_;  // the newest first
  uint64_t lost_ = 0, refused_ = 0;
  std::vector<std::weak_ptr<WireChannel>> channels_;
};

// ---- listening ----

TcpEngine::TcpEngine(std::shared_ptr<ManagerShared> shared)
    : shared_(std::move(shared)),
      forks_(fork_generation()),
      security_(load_security(shared_->options)),
      address_(parse_address(shared_->options.engine)),
      reserve_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  check_guarded(address_, security_);
  raise_descriptor_limit();
  listeners_ = listen_on(address_);
  shared_->options.engine = address_.text();
  loop_ = std::make_unique<IoLoop>();
  std::lock_guard lock(mutex_);
  for (const UniqueFd& socket : listeners_) {
    const int fd = socket.get();
    listener_watches_.push_back(loop_->watch(fd, EPOLLIN, [this, fd](uint32_t) { on_connection(fd); }));
  }
}

TcpEngine::~TcpEngine() {
  if (in_forked_child(forks_)) {
    loop_.release();  // its thread is in the parent
    return;
  }
  bool was_closed;
  {
    std::lock_guard lock(mutex_);
    was_closed = closed_;
  }
  if (!was_closed) shutdown(deadline_in(shared_->options.shutdown_timeout));
}

void TcpEngine::on_connection(int listener) {
  for (int i = 0; i < kMostAtOnce; ++i) {
    if (!make_room()) return listen_later(listener);
    UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      admit(std::move(socket));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) turn_away(listener, errno);
    return;
  }
}

void TcpEngine::complain(const std::string& text) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (now - complained_ < kComplainEvery) {
    ++unsaid_;
    return;
  }
  complained_ = now;
  const int unsaid = std::exchange(unsaid_, 0);
  log().error("{}{}", text, unsaid ? fmt::format(" (and {} complaints like this since the last)", unsaid) : "");
}

// Without a descriptor the connection would wait in the kernel, and the loop would be told of it for ever.
void TcpEngine::turn_away(int listener, int error) {
  complain(resource_message("a worker at " + address_.text() + " is turned away", error, 1));
  reserve_.reset();
  const bool is_gone = UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)).get() >= 0;
  reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!is_gone || !reserve_) listen_later(listener);
}

// Somebody else in the program took the last descriptor.
void TcpEngine::listen_later(int listener) {
  const auto own =
      std::find_if(listeners_.begin(), listeners_.end(), [&](const auto& l) { return l.get() == listener; });
  uint64_t watch;
  {
    std::lock_guard lock(mutex_);
    watch = listener_watches_[static_cast<size_t>(own - listeners_.begin())];
  }
  loop_->change(watch, 0);
  loop_->at(std::chrono::steady_clock::now() + kListenLater, [this, watch] {
    if (!reserve_) reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    loop_->change(watch, EPOLLIN);
  });
}

// Strangers who say nothing keep nobody out: when there are too many, the oldest goes of the machine that has the most.
// False: nobody has had his time yet, and newcomers wait in the kernel.
bool TcpEngine::make_room() {
  std::lock_guard lock(mutex_);
  const size_t most = std::clamp(static_cast<size_t>(shared_->options.max_connections) -
                                     std::min(peers_.size(), static_cast<size_t>(shared_->options.max_connections)),
                                 size_t{1}, kMostStrangers);  // at least one, who may be an observer
  std::map<std::string, size_t> counts;
  size_t count = 0;
  for (const Stranger& stranger : strangers_) {
    if (stranger.is_leaving) continue;
    ++counts[stranger.source];
    ++count;
  }
  if (count < most || count == 0) return true;
  const auto crowd =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto oldest = std::find_if(strangers_.begin(), strangers_.end(),
                                   [&](const Stranger& s) { return !s.is_leaving && s.source == crowd->first; });
  if (std::chrono::steady_clock::now() - oldest->since < kStrangersTime) return false;
  oldest->is_leaving = true;
  oldest->peer->connection().end(fmt::format("did not introduce itself and makes room: {} strangers are here", count));
  return true;
}

void TcpEngine::admit(UniqueFd socket) {
  tune_socket(socket.get(), kKernelPatience);
  auto peer = std::make_shared<TcpPeer>(*this, security_, shared_->options.heartbeat_timeout);
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    const std::string source = peer_name(socket.get());
    strangers_.push_back({peer, source.substr(0, source.rfind(':')), std::chrono::steady_clock::now()});
  }
  try {
    peer->set_connection(Connection::start(*loop_, make_transport(std::move(socket), security_, ""), peer));
  } catch (const std::exception& error) {
    complain(fmt::format("a worker is turned away: {}", error.what()));
    std::lock_guard lock(mutex_);
    forget_stranger(peer);
    return;
  }
  loop_->at(deadline_in(shared_->options.handshake_timeout),
            [this, weak = std::weak_ptr(peer)] { judge_stranger(weak); });
}

void TcpEngine::judge_stranger(const std::weak_ptr<TcpPeer>& weak) {
  const Peer peer = weak.lock();
  if (!peer || peer->is_ready()) return;
  peer->connection().end(fmt::format("did not introduce itself in {} ms", shared_->options.handshake_timeout.count()));
}

void TcpEngine::on_ready(const Peer& peer) {
  std::string why_not;
  {
    std::lock_guard lock(mutex_);
    if (closed_) {
      why_not = "the manager has ended";
    } else if (peers_.size() >= static_cast<size_t>(shared_->options.max_connections)) {
      why_not = fmt::format("{} workers are connected: no more are taken (Options::max_connections)", peers_.size());
    } else {
      forget_stranger(peer);
      peers_.push_back(peer);
      changed_.notify_all();
    }
  }
  if (why_not.empty()) return;
  complain(fmt::format("a worker at {} is sent away: {}", peer->connection().peer(), why_not));
  peer->bye(why_not, false);  // it stays a stranger until it has gone
}

void TcpEngine::on_place_free() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void TcpEngine::on_stranger_gone(const std::string& where, const std::string& why) {
  complain(fmt::format("a stranger at {} {}", where, why));
}

void TcpEngine::on_refused(const std::string& where, const std::string& text) {
  complain(fmt::format("a worker at {} is refused: {}", where, text));
  std::lock_guard lock(mutex_);
  ++refused_;
  last_refusal_ = shortened(text, ManagerStatus::kLongestText);
}

void TcpEngine::on_gone(const Peer& peer, const std::string& loss) {
  std::lock_guard lock(mutex_);
  if (!loss.empty()) {
    ++lost_;
    losses_.push_front(shortened(loss, ManagerStatus::kLongestText));
    if (losses_.size() > ManagerStatus::kMostLosses) losses_.pop_back();
  }
  forget_stranger(peer);
  std::erase(peers_, peer);
  changed_.notify_all();
}

// ---- creating ----

void TcpEngine::check_open() const {
  if (closed_) throw_remote(RemoteErrorKind::kClosed, "the manager is closed");
}

// Waits until `choose` (under the lock) finds a place.
template <typename Choose, typename Explain>
TcpEngine::Link TcpEngine::await(const CreateRequest& request, Choose&& choose, Explain&& explain) {
  std::unique_lock lock(mutex_);
  for (;;) {
    check_open();
    if (Link link = choose()) return link;
    if (request.deadline == kForever) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, request.deadline) == std::cv_status::timeout) {
      if (Link link = choose()) return link;
      throw_remote(RemoteErrorKind::kRefused, explain());
    }
  }
}

std::shared_ptr<ObjectChannel> TcpEngine::begin(const CreateRequest& request, const Link& link) {
  auto channel = std::make_shared<WireChannel>(request, shared_, link);
  bool is_closed;
  {
    std::lock_guard lock(mutex_);
    is_closed = closed_;
    std::erase_if(channels_, [](const auto& c) { return c.expired(); });
    channels_.push_back(channel);
  }
  if (is_closed) {
    link->give_up();
    throw_remote(RemoteErrorKind::kClosed, "the manager is closed");
  }
  link->attach(channel);
  channel->build(request);
  return channel;
}

std::shared_ptr<ObjectChannel> TcpEngine::create(CreateRequest request) {
  GpuBook& gpus = *shared_->gpu_book;
  const Link link = await(
      request, [&] { return choose_worker(peers_, request, gpus); },
      [&] { return why_no_worker(peers_, request, gpus, address_.text()) + last_refusal("worker"); });
  request.placement.gpus = link->gpus();
  request.placement.devices = link->devices();
  return begin(request, link);
}

std::shared_ptr<ObjectChannel> TcpEngine::take(CreateRequest request) {
  if (!GpuWish(request.place).is_empty())
    throw_remote(RemoteErrorKind::kRefused, "get_remote: an object that dials in has its GPUs already; ask for none");
  const Link link = await(
      request, [&] { return choose_object(peers_, request); },
      [&] { return why_no_object(peers_, request, address_.text()) + last_refusal("one"); });
  return begin(request, link);
}

// Under mutex_; for a refusal.
std::string TcpEngine::last_refusal(const char* whose) const {
  return last_refusal_.empty() ? "" : fmt::format("; the last {} that came was refused: {}", whose, last_refusal_);
}

void TcpEngine::describe(ManagerStatus& status) {
  std::lock_guard lock(mutex_);
  status.strangers = static_cast<int32_t>(strangers_.size());
  status.lost = lost_;
  status.refused = refused_;
  status.last_losses.assign(losses_.begin(), losses_.end());
  status.last_refusal = last_refusal_;
  for (const Peer& peer : peers_) {
    ++(peer->is_object() ? status.offers : status.workers);
    if (status.list.size() < static_cast<size_t>(ManagerStatus::kMostWorkers)) status.list.push_back(peer->describe());
  }
}

// A crowd of observers costs no more than a few: they hear the same.
const ManagerStatus& TcpEngine::on_ask() {
  const TimePoint now = std::chrono::steady_clock::now();
  if (now - told_ >= kNewsEvery) {
    news_ = describe_manager(*this, *shared_);
    told_ = now;
  }
  return news_;
}

RemoteSlots TcpEngine::slots(const RemoteSlots& book) {
  std::lock_guard lock(mutex_);
  int offered = 0, vacant = 0, used = 0;
  for (const Peer& peer : peers_) {
    offered += peer->slots();
    vacant += std::max(0, peer->vacant());
    used += peer->is_object() ? 0 : peer->used();
  }
  RemoteSlots slots = book;
  slots.used = used;  // the book has those, too, that wait for a worker
  slots.total = book.total > 0 ? std::min(book.total, offered) : offered;
  slots.vacant = book.total > 0 ? std::min(book.vacant, vacant) : vacant;
  return slots;
}

// ---- the end ----

// Waits until all objects are gone. Gives the workers that still have some at `deadline`: they are told to end them by
// force.
std::set<TcpEngine::Peer> TcpEngine::await_objects(const std::vector<std::shared_ptr<WireChannel>>& channels,
                                                   TimePoint deadline) {
  std::set<Peer> unfinished;
  {
    std::unique_lock lock(mutex_);
    const auto is_done = [&] {
      return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer->used() == 0; });
    };
    if (deadline == kForever) {
      changed_.wait(lock, is_done);
    } else {
      changed_.wait_until(lock, deadline, is_done);
    }
    for (const Peer& peer : peers_)
      if (peer->used() > 0) unfinished.insert(peer);
  }
  for (const auto& channel : channels) {
    if (unfinished.empty() || channel->wait_gone(kNoWait)) continue;
    log().error(
        "{} did not end in time; its worker (process {} on {}) starts anew. Let long methods poll "
        "parl::stop_requested()",
        channel->label(), channel->pid(), channel->host());
  }
  return unfinished;
}

void TcpEngine::shutdown(TimePoint deadline) {
  if (in_forked_child(forks_)) return;
  std::vector<std::shared_ptr<WireChannel>> channels;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
    for (const auto& weak : channels_)
      if (auto channel = weak.lock()) channels.push_back(std::move(channel));
  }
  for (const uint64_t watch : listener_watches_) loop_->unwatch(watch);
  for (const auto& channel : channels) channel->stop();
  const std::set<Peer> unfinished = await_objects(channels, deadline);
  loop_->post([this] {  // there, because that is where they get their connections
    std::lock_guard lock(mutex_);
    for (const Stranger& stranger : strangers_) stranger.peer->connection().end("came when the manager ended");
  });
  {
    std::unique_lock lock(mutex_);
    for (const Peer& peer : peers_) peer->bye("the manager has ended", unfinished.count(peer) > 0);
    const auto is_done = [&] { return peers_.empty() && strangers_.empty(); };
    if (deadline != kForever) {
      changed_.wait_until(lock, std::max(deadline, std::chrono::steady_clock::now() + kFarewell), is_done);
      for (const Peer& peer : peers_) peer->connection().end("the manager has ended");
    }
    changed_.wait(lock, is_done);
  }
  delete loop_.get();  // joins: no handler runs any more; until then they use loop_, which reset() would empty first
  loop_.release();
  listeners_.clear();
  if (address_.is_unix()) ::unlink(address_.path.c_str());
}

}  // namespace

bool is_tcp_engine(const std::string& engine) {
  return engine.rfind("tcp://", 0) == 0 || engine.rfind("unix:", 0) == 0;
}

std::unique_ptr<Engine> make_tcp_engine(std::shared_ptr<ManagerShared> shared) {
  return std::make_unique<TcpEngine>(std::move(shared));
}

}  // namespace parl::internal
