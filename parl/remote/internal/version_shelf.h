// The Versioned values that a learner has sent to this worker process, for all its objects (version_library.h).
//
// A value comes undecoded, by the I/O thread; the first object that needs it decodes it, on its own thread. A message
// may name a value that is still on its way: its object waits, until the connection ends. What is dropped is the
// caller's to destroy, for values are the user's.
// Thread rule: any thread; put() and forget() do not block.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "parl/remote/internal/frame.h"

namespace parl::internal {

class VersionShelf final : public VersionReceiver {
 public:
  static constexpr size_t kMost = size_t{1} << 20;

  // Keys rise. Throws WireError when they do not, or when the learner sends more than it ever should.
  void put(uint64_t key, Frame frame);
  // What was kept, or null.
  std::shared_ptr<const void> forget(uint64_t key);
  // Nothing comes any more: whoever waits, or asks for what is not here, gets a WireError.
  void close();

  void received(uint64_t key, const void* type_tag, std::shared_ptr<const void> value) override;
  std::shared_ptr<const void> find(uint64_t key, const void* type_tag, const Load& load) override;
  size_t size() const;

 private:
  struct Entry {
    Frame frame;                         // until it is decoded
    bool is_raw = true, is_bad = false;  // neither and no value: somebody is decoding it
    const void* type_tag = nullptr;
    std::shared_ptr<const void> value;
  };
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_closed_ = false;
  uint64_t last_key_ = 0;  // that came
  std::map<uint64_t, std::shared_ptr<Entry>> entries_;
};

}  // namespace parl::internal
