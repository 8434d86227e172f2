// A learner's end (TcpPeer) or a worker's (WorkerSession) of a connection whose other end sends anything and closes.
// It ends, and tells its owner so once.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "parl/core/check.h"
#include "parl/remote/fuzz/fuzz.h"
#include "parl/remote/internal/io_loop.h"
#include "parl/remote/internal/tcp_peer.h"
#include "parl/remote/internal/tcp_worker.h"

namespace parl::fuzz {
namespace {

using namespace parl::internal;  // NOLINT: this is a test of its insides
using namespace std::chrono_literals;

constexpr auto kPatience = 30s;

class Owner final : public TcpPeer::Owner {
 public:
  void on_ready(const std::shared_ptr<TcpPeer>& peer) override {
    require(peer->slots() >= 0 && peer->slots() <= kMostSlots, "slots are within their bounds");
    require(peer->vacant() >= 0, "vacancy is not negative");
    (void)peer->find("Counter");
    link_ = peer->reserve({});
  }
  void on_place_free() override {}
  const ManagerStatus& on_ask() override {
    static const ManagerStatus status;
    return status;
  }
  void on_refused(const std::string&, const std::string& text) override {
    require(!text.empty(), "a refusal says why");
  }
  void on_stranger_gone(const std::string&, const std::string&) override {}
  void on_gone(const std::shared_ptr<TcpPeer>&, const std::string&) override {
    std::lock_guard lock(mutex_);
    require(++gone_ == 1, "a peer is gone once");
    changed_.notify_all();
  }
  void wait_gone() {
    std::unique_lock lock(mutex_);
    require(changed_.wait_for(lock, kPatience, [&] { return gone_ > 0; }), "a connection that is closed ends");
  }

 private:
  std::shared_ptr<TcpObjectLink> link_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int gone_ = 0;
};

struct Ends {
  Ends() {
    int fds[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0, "there is a socket pair");
    own.reset(fds[0]);
    hostile.reset(fds[1]);
  }
  // What does not fit into the socket is not sent. The answers are never read.
  void send(Input data) const {
    if (!data.empty()) (void)!::send(hostile.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::shutdown(hostile.get(), SHUT_WR);
  }
  UniqueFd own, hostile;
};

Security security_of(uint8_t mode) {
  Security security;
  if (mode & 2) security.token = "a-token-of-some-length";
  return security;
}

void hostile_worker(IoLoop& loop, uint8_t mode, Input data) {
  Owner owner;
  Ends ends;
  auto peer = std::make_shared<TcpPeer>(owner, security_of(mode), 10s);
  ends.send(data);
  loop.post([&] { peer->set_connection(Connection::start(loop, make_plain_transport(std::move(ends.own)), peer)); });
  owner.wait_gone();
}

void hostile_learner(IoLoop& loop, uint8_t mode, Input data) {
  static const WorkerSettings settings{"unix:/fuzz", 2};
  Ends ends;
  auto session = std::make_shared<WorkerSession>(security_of(mode), settings, nullptr, nullptr);
  ends.send(data);
  const auto connection = Connection::start(loop, make_plain_transport(std::move(ends.own)), session);
  session->wait_end();  // or the learner says that objects are left to be ended by force
  connection->end("the input is at its end");
  require(session->end_objects(std::chrono::steady_clock::now() + kPatience), "objects end with their connection");
}

}  // namespace

void handshake(Input data) {
  static IoLoop& loop = *new IoLoop;  // with its thread, to the end of the process
  Source source(data);
  const uint8_t mode = source.byte();
  if (mode & 1) {
    hostile_learner(loop, mode, source.rest());
  } else {
    hostile_worker(loop, mode, source.rest());
  }
}

}  // namespace parl::fuzz
