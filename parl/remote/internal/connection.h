// One connection between a learner and a worker: frames of many objects, signs of life, and its end told once.
//
// Frames are sent by the calling thread, as far as the socket takes them; the rest, and everything that arrives, is the
// I/O loop's. Each side sends a sign of life when it has nothing else to say; a peer that is silent for its patience is
// lost. It is judged only after its socket has been drained, and when this loop itself was late (the program was
// stopped, the laptop slept), the clock starts anew.
// A connection keeps itself and its listener alive until its end. Thread rule: any thread; listener methods run on the
// loop's thread, one at a time, and must not block.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "parl/remote/internal/io_loop.h"
#include "parl/remote/internal/mux.h"
#include "parl/remote/internal/tcp_protocol.h"

namespace parl::internal {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Milliseconds = std::chrono::milliseconds;

  class Listener {
   public:
    virtual ~Listener() = default;
    // The transport's handshake is done: frames may be sent.
    virtual void on_open(const std::shared_ptr<Connection>& self) = 0;
    // What it throws is garbage of the peer: the connection ends, and on_end() says why.
    virtual void on_frame(uint32_t object, Frame frame) = 0;
    // It is time for a sign of life. One is sent when this has sent nothing and nothing else was.
    virtual void on_beat() {}
    // Once, last of all.
    virtual void on_end(const std::string& why) = 0;
  };

  // Limits are those for strangers until trust().
  static std::shared_ptr<Connection> start(IoLoop& loop, std::unique_ptr<Transport> transport,
                                           std::shared_ptr<Listener> listener);

  // The peer has said who it is: on the I/O thread. `streams`: how many objects may be in the middle of a frame at
  // once.
  void trust(FrameLimits limits, size_t streams, Milliseconds beat, Milliseconds patience);

  // After the end nothing is sent, and nobody is told but the listener, by on_end().
  void send(uint32_t object, uint8_t kind, uint64_t id, const Writer& writer, const MuxSender::Keep& keep = nullptr);
  void send(uint32_t object, FrameKind kind, uint64_t id = 0) {
    send(object, static_cast<uint8_t>(kind), id, Writer());
  }
  // A message of the connection's own.
  template <typename T>
  void tell(ControlKind kind, const T& message) {
    Writer writer;
    wire::save(writer, message);
    send(0, static_cast<uint8_t>(kind), 0, writer);
  }
  // Waits while more than `bytes` of this object are on their way out.
  void wait_sent(uint32_t object, uint64_t bytes);

  // Ends it: `why` goes to on_end(), on the loop's thread, soon.
  void end(std::string why);
  // The same, after what was sent has gone and the peer has closed its side, or a second has passed without progress.
  void finish(std::string why);
  // The same, but the peer shall close first: this side stays open until it has, or a second has passed.
  void await_end(std::string why);

  const std::string& binding() const { return binding_; }  // the transport's, from on_open() on
  const std::string& peer() const { return peer_; }        // address, and identity if a certificate gives one
  uint64_t queued_bytes(uint32_t object);
  uint64_t bytes_sent();
  uint64_t bytes_received() const { return received_.load(std::memory_order_relaxed); }

 private:
  Connection(IoLoop& loop, std::unique_ptr<Transport> transport, std::shared_ptr<Listener> listener);
  void on_events(uint32_t events);
  void shake_hands();
  void on_writable();
  void end_after_failed_write();
  void read_rest();
  bool read_frames();
  void handle(uint32_t object, Frame frame);
  void on_timer(Time due);
  void set_timer();
  void judge_later(Time now);
  void say_alive(Time now);
  void do_end(const std::string& why);
  void set_finish_timer();
  void on_finish_timer();
  void do_finish(std::string why, bool closes_first);
  uint32_t interest_locked() const;

  IoLoop& loop_;
  std::unique_ptr<Transport> transport_;
  std::string peer_, binding_;
  MuxReader reader_;  // the loop's
  std::atomic<uint64_t> watch_{0}, received_{0};

  // The loop's:
  std::shared_ptr<Listener> listener_;
  bool is_open_ = false, is_ended_ = false, is_finishing_ = false, closes_first_ = false;
  std::string why_finished_;
  Milliseconds beat_{0}, patience_{0};  // 0: not judged
  Time heard_{}, spoke_{};
  bool finish_was_pending_ = false;
  uint64_t sent_at_finish_ = 0;
  uint64_t sent_before_ = 0, timer_ = 0, finish_timer_ = 0;

  std::mutex send_mutex_;
  std::condition_variable sent_some_;
  MuxSender sender_;
  bool send_closed_ = false, wants_write_ = false;
};

}  // namespace parl::internal
