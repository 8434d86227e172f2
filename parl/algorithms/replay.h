// ReplayBuffer: the newest experience, kept as the unrolls it came in, sampled by single steps. What DQN and its
// relatives learn from.
//
// Sampling gives n-step transitions: reward = sum of gamma^k r over up to n_step steps, discount = gamma^steps, or 0
// when they end in a termination; next_obs is the observation after them: obs[t + n], the final observation where the
// episode was truncated. Windows stop at every end and at the end of their unroll (there they are shorter, which is
// right too). Prioritised (Schaul et al. 2016, arXiv 1511.05952): P(i) ~ (|error| + 1e-6)^alpha in a sum tree; new
// steps get the highest priority seen; weight = (N P(i))^-beta over the largest of the sample. uint8 images [H, W, C]
// whose channels are the last C frames (a frame stack that starts again at every reset, newest last) are found by
// looking and stored once per frame; the stacks are put together on sampling, to the bit. Should a later observation
// not be one, everything is stored whole from then on. Memory is taken as the buffer fills; memory_for() says before
// the start how much it will be, capacity_bytes() once the first batch has shown how it is stored. Final observations
// of truncated steps come on top. save() and load() stream: they take no second copy of the buffer. Owner: one learner;
// thread rule: one thread at a time. Errors: parl::Error for batches that differ in shape from the first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "parl/agent/batch.h"
#include "parl/agent/spec.h"
#include "parl/agent/weights.h"
#include "parl/core/rng.h"

namespace parl {

// Sums over a changing list of non-negative numbers, and the place where a partial sum is reached; O(log n) each.
class SumTree {
 public:
  explicit SumTree(int64_t size = 0);
  void set(int64_t i, double value);
  double get(int64_t i) const { return nodes_[static_cast<size_t>(leaves_ + i)]; }
  double total() const { return leaves_ > 0 ? nodes_[1] : 0; }
  int64_t bytes() const { return static_cast<int64_t>(nodes_.size() * sizeof(double)); }
  static int64_t bytes_for(int64_t size);
  // The first i whose sum over [0, i] exceeds `sum`; never one of value 0 while there are others.
  int64_t find(double sum) const;

 private:
  int64_t leaves_ = 0;
  std::vector<double> nodes_;
};

struct ReplayOptions {
  int64_t capacity = 100'000;  // steps; rounded down to whole unrolls, at least one batch
  int64_t n_step = 1;
  double gamma = 0.99;
  bool prioritized = false;
  double alpha = 0.6;
  uint64_t seed = 0;
};

// Bytes of a full buffer: `least` if images turn out to be frame stacks, `most` if not. Equal where there is no doubt.
struct ReplayMemory {
  int64_t least = 0, most = 0;
};

struct ReplaySample {
  at::Tensor obs, next_obs;             // [N, ...obs_shape] in the batch's dtype
  at::Tensor action;                    // [N] int64, or [N, A] float32
  at::Tensor reward, discount, weight;  // [N] float32; weights are 1 when sampling is uniform
  std::vector<int64_t> index;           // for update_priorities
};

class ReplayBuffer {
 public:
  explicit ReplayBuffer(ReplayOptions options);

  void add(const Batch& batch);
  int64_t size() const { return filled_ * length_; }  // steps
  int64_t capacity() const { return slots_ * length_; }
  int64_t capacity_bytes() const;  // 0 before the first add()
  // Before the first add(): unrolls of `length` steps in an environment with that spec.
  ReplayMemory memory_for(const ModelSpec& spec, int64_t length) const;
  // add() throws where more would be needed; 0: no limit.
  void limit_memory(int64_t bytes) { memory_limit_ = bytes; }
  bool stores_frames() const { return depth_ > 1; }

  ReplaySample sample(int64_t n, double beta = 1.0);
  // The same into the memory of `out`, where that has the right shapes.
  void sample_into(ReplaySample& out, int64_t n, double beta = 1.0);
  // errors [N]: TD errors of the sample's steps; the sign is ignored.
  void update_priorities(const std::vector<int64_t>& index, const at::Tensor& errors);

  // Everything, so that sampling continues to the bit, in a file (safetensors) that appears whole or not at all; load()
  // wants what save() wrote under the same options. Throws parl::Error naming file and cause; then a loading buffer is
  // empty.
  void save(const std::string& path) const;
  void load(const std::string& path);
  // The same in memory, under "replay/...": two copies of everything.
  void append_state(Weights& state) const;
  void set_state(const Weights& state);

 private:
  struct Saved;  // what save() writes besides the stored tensors
  Saved saved() const;
  template <typename Read>
  void restore(const Read& read);
  std::vector<std::pair<const char*, at::Tensor*>> stored();
  void clear();
  void check_limit(int64_t bytes, const char* why) const;
  int64_t bytes_beside_obs(int64_t steps, int64_t action_bytes) const;
  void allocate(const Batch& batch);
  bool is_frame_stack(const Batch& batch) const;
  void store_whole();  // leaves frame storage
  void add_unroll(const Batch& batch, int64_t b);
  void write_obs(int64_t slot, const at::Tensor& obs);            // [T+1, ...]
  void read_obs(int64_t slot, int64_t t, std::byte* into) const;  // one observation
  int64_t last_reset(int64_t slot, int64_t t) const;  // first row of t's episode in the unroll; 0: before it
  const at::Tensor& final_of(int64_t slot, int64_t t) const;
  void shape_sample(ReplaySample& out, int64_t n) const;
  int64_t rows() const { return stores_frames() ? depth_ + length_ : length_ + 1; }

  ReplayOptions options_;
  int64_t slots_ = 0, length_ = 0, next_ = 0, filled_ = 0, depth_ = 1;
  std::vector<int64_t> obs_shape_;
  at::Tensor obs_;                                       // [slots, rows, ...]: observations, or frames [H, W]
  at::Tensor action_, reward_, terminated_, truncated_;  // [slots, T]; continuous actions [slots, T, A]
  std::vector<std::vector<std::pair<int64_t, at::Tensor>>> finals_;  // by slot: (t, final observation)
  SumTree tree_;
  double max_priority_ = 1;
  int64_t memory_limit_ = 0;
  CounterRng rng_;
};

// What an algorithm with a replay buffer is besides an Algorithm. Its get_state() leaves the buffer out: the training
// loop saves that apart, streamed, in the newest checkpoint alone, says its size before the start, and holds it to the
// machine's memory. Thread rule: as the algorithm's.
class ReplayOwner {
 public:
  virtual ~ReplayOwner() = default;
  virtual ReplayBuffer& replay() = 0;
  // The run continues, but its buffer was not saved: this one begins empty.
  virtual void replay_lost() {}
};

}  // namespace parl
