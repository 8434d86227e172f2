// One object in a worker process of the tcp engine: its queue of frames, and the thread that runs it.
// Thread rule: deliver(), stop() and cut_off() from any thread; serve() and what it calls on the object's thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "parl/remote/internal/connection.h"
#include "parl/remote/internal/object_runner.h"
#include "parl/remote/internal/version_shelf.h"
#include "parl/wire/array_pool.h"

namespace parl::internal {

class HostedObject final : public ObjectRunner::Home {
 public:
  // `on_leaving` runs before the learner hears that the object is gone, on the object's thread.
  HostedObject(std::shared_ptr<Connection> connection, uint32_t number, std::shared_ptr<VersionShelf> versions,
               std::function<void()> on_leaving)
      : connection_(std::move(connection)),
        number_(number),
        versions_(std::move(versions)),
        on_leaving_(std::move(on_leaving)) {}

  // Throws WireError for a kind that has no place here.
  void deliver(Frame frame);
  // The connection has ended: the calls that wait are dropped, stop_requested() becomes true, and the object goes.
  void cut_off();
  // Something of the user's, to be destroyed on the object's thread.
  void drop(std::shared_ptr<const void> value);

  enum class End { kGoodbye, kCutOff };
  // Builds the object and serves it until it is gone.
  End serve();
  // The same for an object that exists already and stays when the learner has gone. Waits for the learner to take it.
  End serve(const ClassInfo& info, void* object);

  void send(FrameKind kind, uint64_t id, Writer&& writer, bool may_take) override;
  bool is_given_up(uint64_t id) override;
  ArrayAllocator* allocator() override { return pool_.get(); }
  VersionReceiver* versions() override { return versions_.get(); }
  void prepare(CreateHead& head) override;

 private:
  struct Leaving;
  bool next(Frame& out);
  End serve_all();

  void remove_directory();

  const std::shared_ptr<Connection> connection_;
  const uint32_t number_;
  const std::shared_ptr<VersionShelf> versions_;
  std::function<void()> on_leaving_;
  std::unique_ptr<ArrayPool> pool_;  // before the runner, whose context may use it
  ObjectRunner runner_{*this};
  std::string own_directory_;  // empty: the learner's is here too

  std::atomic<bool> is_stopped_{false}, is_cut_off_{false};
  std::atomic<size_t> given_up_count_{0};
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Frame> queue_;
  std::vector<uint64_t> given_up_;
  std::vector<std::shared_ptr<const void>> dropped_;
};

}  // namespace parl::internal
