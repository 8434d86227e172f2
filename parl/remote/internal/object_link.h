// The way from a manager to one object elsewhere: a process of its own (process_link.h), or a place on a worker's
// connection (tcp_peer.h). Frames of both are those of process_protocol.h.
// Thread rule: any thread. Listener methods run on an I/O thread and must not block.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parl/remote/internal/call.h"
#include "parl/remote/internal/frame.h"
#include "parl/remote/internal/process_protocol.h"
#include "parl/remote/internal/version_library.h"

namespace parl::internal {

class ObjectLink {
 public:
  using Keep = std::function<std::shared_ptr<const void>()>;

  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_frame(Frame frame) = 0;
    // The other side is gone without a word about this object. Once, if at all.
    virtual void on_end() = 0;
  };

  virtual ~ObjectLink() = default;

  // Sends what `writer` holds. `may_take`: arrays that lie in shared memory are moved out of it. When the socket does
  // not take everything at once, `keep` gives the owner of what the writer holds (it may move it; addresses must stay).
  // Returns where the attachments went.
  virtual std::vector<AttachmentPlace> send(FrameKind kind, uint64_t id, const Writer& writer, bool may_take,
                                            const Keep& keep) = 0;
  void send(FrameKind kind, uint64_t id = 0) { send(kind, id, Writer(), false, nullptr); }

  // Nobody waits for the object any more: it shall end, by force if it must; one that dialled in lives on and dials
  // again. The listener hears no more of it.
  virtual void give_up() = 0;
  // Nothing can be sent any more: the other side is lost.
  virtual void cut() = 0;
  // The object has said that it ends: the listener hears no more.
  virtual void expect_end() = 0;
  virtual bool wait_ended(TimePoint deadline) = 0;

  // A call or the constructor failed there.
  virtual void note_failure(const RemoteFailure& failure) { (void)failure; }

  // What the other side holds of Versioned values, if objects share it; null: each object has its own.
  virtual std::shared_ptr<VersionLibrary> library() { return nullptr; }

  // Why on_end() came: "(pid 12) was killed by signal 9 (Killed)"; with its last lines, if there are any.
  virtual std::string end_text() const = 0;
  virtual int64_t pid() const = 0;
  virtual const std::string& host() const = 0;
};

}  // namespace parl::internal
