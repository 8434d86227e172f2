// The GPUs of a machine by number, and who has them. Nothing here talks to a driver: they are numbers that are handed
// out.
//
// Gpus: those that a process may hand out: what it was told, else CUDA_VISIBLE_DEVICES, else /dev/nvidia<number>.
// GpuBook: which of them are in use by the objects of one manager, by machine. An object has its GPUs for itself unless
// its Place says share_gpus, and then with others that say so too. Thread rule: Gpus is a value; a GpuBook may be used
// from any thread, and take() blocks.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parl/remote/internal/call.h"
#include "parl/remote/place.h"

namespace parl::internal {

struct Gpus {
  std::vector<int> ids;            // the machine's numbers; 0, 1... where CUDA_VISIBLE_DEVICES holds names
  std::vector<std::string> names;  // of each, as CUDA_VISIBLE_DEVICES wants it
  std::vector<int> devices;        // of each, what a process calls it that sees all that this one sees

  // What these are to a process whose CUDA_VISIBLE_DEVICES is visible(ids): 0, 1...; and to this one.
  std::string visible(const std::vector<int>& some) const;
  std::vector<int> devices_of(const std::vector<int>& some) const;
};

// `text`: "0,1"; "none"; "auto" or empty: all there are. Throws parl::Error: not understood, or not among those that
// CUDA_VISIBLE_DEVICES names.
Gpus find_gpus(const std::string& text);

// CUDA_VISIBLE_DEVICES of this process becomes these. Before there are other threads.
void show_only(const Gpus& gpus);

struct GpuWish {
  explicit GpuWish(const Place& place);
  std::vector<int> ids;  // these; or, where it is empty,
  int count = 0;         // so many, whichever
  bool is_shared = false;
  bool is_empty() const { return ids.empty() && count == 0; }
  // Whether a machine with these GPUs could ever grant it.
  bool fits(const std::vector<int>& offered) const;
  std::string text() const;  // "GPU 3", "2 GPUs"
};

class GpuBook : public std::enable_shared_from_this<GpuBook> {
 public:
  struct Lease {
    std::vector<int> ids;
    std::shared_ptr<void> hold;  // its end gives them back
  };
  // Of those on `host`; empty: not now.
  std::optional<Lease> try_take(const std::string& host, const std::vector<int>& offered, const GpuWish& wish);
  // Waits for them. Throws RemoteError `refused`, with who has what: at once if it can never be, else at `deadline`;
  // `closed` after close().
  Lease take(const std::string& host, const std::vector<int>& offered, const GpuWish& wish, TimePoint deadline);
  void close();
  // "GPUs 0, 1, of which 0 is in use"
  std::string describe(const std::string& host, const std::vector<int>& offered);

 private:
  struct Use {
    int sharers = 0;
    bool is_exclusive = false;
  };
  using Key = std::pair<std::string, int>;
  bool is_free(const Key& key, bool is_shared) const;
  std::vector<int> choose(const std::string& host, const std::vector<int>& offered, const GpuWish& wish) const;
  std::optional<Lease> try_take_locked(const std::string& host, const std::vector<int>& offered, const GpuWish& wish);
  std::string describe_locked(const std::string& host, const std::vector<int>& offered) const;
  void give_back(const std::string& host, const std::vector<int>& ids) noexcept;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Use> used_;
  bool closed_ = false;
};

}  // namespace parl::internal
