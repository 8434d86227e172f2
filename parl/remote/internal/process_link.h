// The manager's end of one worker process: its socket, its output, its life.
//
// There are no heartbeats: the kernel reports the end of a local process at once, and one that is stopped or computes
// for minutes is not lost. Frames are sent by the calling thread, as far as the socket takes them; the rest, and
// everything that arrives, is the I/O loop's. The worker's end is taken from its pidfd: what it had still sent and
// printed is read first, then the listener hears on_end(), once. A worker that closes its socket and lives on is killed
// after half a second. A link keeps itself alive until its process has been collected; it must not outlive its loop
// before that. Thread rule: any thread. Listener methods run on the loop's thread and must not block.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "parl/remote/internal/class_info.h"
#include "parl/remote/internal/io_loop.h"
#include "parl/remote/internal/log_pump.h"
#include "parl/remote/internal/object_link.h"
#include "parl/remote/internal/slab_port.h"
#include "parl/remote/internal/spawn.h"

namespace parl::internal {

class ProcessLink final : public ObjectLink, public std::enable_shared_from_this<ProcessLink> {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Settings {
    SpawnOptions spawn;
    std::string name;      // for the log's prefix
    std::string log_file;  // empty: none
    size_t slab_bytes = 0;
    std::function<void(ProcessLink&)> on_collected;  // last of all, on the loop's thread
  };

  // Throws parl::Error when the process cannot be started.
  static std::shared_ptr<ProcessLink> start(IoLoop& loop, Settings settings);
  ~ProcessLink() override;

  enum class Hello { kArrived, kEnded, kTimeout };
  Hello wait_hello(Time deadline);

  // From now on frames go to `listener`, who is kept until the end, or expect_end().
  void attach(std::shared_ptr<Listener> listener, const std::string& name, std::string log_file);

  using ObjectLink::send;
  std::vector<AttachmentPlace> send(FrameKind kind, uint64_t id, const Writer& writer, bool may_take,
                                    const Keep& keep) override;

  // SIGTERM now, SIGKILL after five seconds.
  void terminate();
  void kill();
  void give_up() override { terminate(); }
  void cut() override { kill(); }
  // SIGKILL if it has not ended after five seconds.
  void expect_end() override;
  bool ended() const;
  bool wait_ended(Time deadline) override;

  int64_t pid() const override { return child_.pid; }
  const std::string& host() const override { return this_host(); }
  // After the end: "(pid 12) was killed by signal 9 (Killed)", with what was wrong on the wire, if anything.
  std::string end_text() const override;
  std::string last_lines() const { return log_.last_lines(); }
  SlabPort& slabs() { return slabs_; }

 private:
  ProcessLink(IoLoop& loop, Settings settings);
  void drop_listener();
  void watch();
  void on_socket(uint32_t events);
  void on_output();
  void on_pidfd();
  void read_frames(bool all);
  void handle(Frame frame);
  void on_garbage(const std::string& what);
  void finish(const ExitStatus& status);
  void kill_at(Time when);  // with mutex_ held

  IoLoop& loop_;
  const std::function<void(ProcessLink&)> on_collected_;
  ChildProcess child_;
  LogPump log_;
  SlabPort slabs_;
  FrameReader reader_;                                                        // the loop's
  std::atomic<uint64_t> socket_watch_{0}, output_watch_{0}, pidfd_watch_{0};  // the last one set: all are
  bool socket_closed_ = false;                                                // the loop's

  std::mutex send_mutex_;
  FrameSender sender_;
  bool send_closed_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool hello_ = false, ended_ = false, terminating_ = false;
  std::string end_text_, garbage_;
  uint64_t kill_timer_ = 0;
  std::shared_ptr<Listener> listener_;
};

}  // namespace parl::internal
