// A worker's connection as the learner sees it: who it is, what it offers, and the objects that live there; or an
// observer's, who asks for the learner's status and is gone.
//
// It says hello, proves that it may, offers, and is ready; or it is refused, in words that it can log. Its vacancy is
// its offer less the objects that have not said that they are gone. An object that nobody waits for any more holds its
// place until then.
// Thread rule: any thread; on_*() on the I/O thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "parl/remote/internal/auth.h"
#include "parl/remote/internal/connection.h"
#include "parl/remote/internal/gpus.h"
#include "parl/remote/internal/log_pump.h"
#include "parl/remote/internal/object_link.h"
#include "parl/remote/internal/peer_meter.h"
#include "parl/remote/internal/version_library.h"

namespace parl::internal {

class TcpObjectLink;

class TcpPeer final : public Connection::Listener,
                      public VersionLibrary::Road,
                      public std::enable_shared_from_this<TcpPeer> {
 public:
  // Who hears of peers, on the I/O thread; outlives the I/O loop.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_ready(const std::shared_ptr<TcpPeer>& peer) = 0;
    virtual void on_place_free() = 0;
    // It may not come, or the TLS handshake failed. `where`: its address.
    virtual void on_refused(const std::string& where, const std::string& text) = 0;
    // It was cut off, or went, before it had said who it is.
    virtual void on_stranger_gone(const std::string& where, const std::string& why) = 0;
    // `loss`: what happened to a worker that went without a goodbye; else empty.
    virtual void on_gone(const std::shared_ptr<TcpPeer>& peer, const std::string& loss) = 0;
    // For an observer.
    virtual const ManagerStatus& on_ask() = 0;
  };

  TcpPeer(Owner& owner, const Security& security, std::chrono::milliseconds heartbeat)
      : owner_(owner), security_(security), heartbeat_(heartbeat), own_(make_greeting(security)) {}

  // Just after it was started, on the I/O thread.
  void set_connection(std::shared_ptr<Connection> connection) { connection_ = std::move(connection); }
  void on_open(const std::shared_ptr<Connection>& self) override {
    connection_ = self;
    is_open_ = true;
  }
  void on_frame(uint32_t object, Frame frame) override;
  void on_beat() override {
    meter_.sample(bytes());
    library_->tidy();
  }
  void on_end(const std::string& why) override;

  // ---- once ready ----
  int64_t pid() const { return guest_.pid; }
  const std::string& host() const { return guest_.host; }
  bool is_object() const { return offer_.is_object; }
  int slots() const { return offer_.slots; }
  const std::vector<int>& gpus() const { return offer_.gpus; }
  WorkerStatus describe();
  // Null: it does not know the class.
  const OfferedClass* find(const std::string& name) const;
  // For a refusal: what the class is there, and what it is `here`.
  std::string how_it_differs(const OfferedClass& there, const std::string& here) const;
  int vacant();
  int used();
  // A place for one object. Null: none is vacant (any more).
  std::shared_ptr<TcpObjectLink> reserve(GpuBook::Lease gpus);
  // Ends the connection, telling why. `leaves_work`: what still runs there shall be ended by force.
  void bye(const std::string& why, bool leaves_work);

  bool is_ready() const { return is_ready_.load(); }
  Connection& connection() const { return *connection_; }
  // What it printed last.
  std::string last_lines() const { return output_ ? output_->last_lines() : ""; }

 private:
  friend class TcpObjectLink;
  void on_control(Frame frame);
  void on_hello(Reader& reader);
  void on_proof(Reader& reader);
  void on_offer(Reader& reader);
  void on_bye(Reader& reader);
  void on_ask();
  void refuse(const std::string& text);
  uint64_t bytes() const { return connection_->bytes_sent() + connection_->bytes_received(); }
  void remove(uint32_t number);
  void send_value(uint64_t key, Writer writer, std::shared_ptr<const void> owner) override;
  void send_forget(uint64_t key) override;

  Owner& owner_;
  const Security security_;
  const std::chrono::milliseconds heartbeat_;
  const Greeting own_;
  enum class Stage { kHello, kProof, kAsk, kOffer, kReady, kEnding } stage_ = Stage::kHello;  // the loop's
  bool is_open_ = false;                                                                      // the loop's
  std::shared_ptr<Connection> connection_;
  Greeting guest_;
  WorkerOffer offer_;
  PeerMeter meter_;
  std::string bye_;
  bool is_failure_ = false;  // so is its goodbye; the loop's
  std::unique_ptr<LogPump> output_;
  const std::shared_ptr<VersionLibrary> library_ = std::make_shared<VersionLibrary>(*this);
  std::atomic<bool> is_ready_{false}, is_sent_away_{false};

  std::mutex mutex_;
  bool is_gone_ = false;
  uint32_t last_number_ = 0;
  std::map<uint32_t, std::shared_ptr<TcpObjectLink>> objects_;
};

class TcpObjectLink final : public ObjectLink {
 public:
  TcpObjectLink(std::shared_ptr<TcpPeer> peer, uint32_t number, GpuBook::Lease gpus)
      : peer_(std::move(peer)), number_(number), gpus_(std::move(gpus)) {}

  // From now on frames go to `listener`.
  void attach(const std::shared_ptr<Listener>& listener);

  using ObjectLink::send;
  std::vector<AttachmentPlace> send(FrameKind kind, uint64_t id, const Writer& writer, bool may_take,
                                    const Keep& keep) override;
  void give_up() override;
  void cut() override { peer_->connection().end("could not be told more"); }
  void expect_end() override { drop_listener(); }
  bool wait_ended(TimePoint deadline) override;
  void note_failure(const RemoteFailure& failure) override;
  std::shared_ptr<VersionLibrary> library() override { return peer_->library_; }
  std::string end_text() const override;
  int64_t pid() const override { return peer_->pid(); }
  const std::string& host() const override { return peer_->host(); }
  // The object's, by its machine's numbers and by its process'.
  const std::vector<int>& gpus() const { return gpus_.ids; }
  std::vector<int> devices() const;

  // The peer's, on the I/O thread.
  void on_frame(Frame frame);
  void on_end(const std::string& why);
  void give_back_gpus();

 private:
  void drop_listener();
  void mark_ended();

  const std::shared_ptr<TcpPeer> peer_;
  const uint32_t number_;
  GpuBook::Lease gpus_;  // hold: under the mutex
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Listener> listener_;
  bool is_begun_ = false, is_ended_ = false;
  bool is_over_ = false;  // the connection has ended
  std::string why_;
};

}  // namespace parl::internal
