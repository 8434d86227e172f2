// RecurrentModel: a Model with a memory of each environment's episode so far, for what one observation does not show.
// step() is all that a network of one's own needs (docs/recurrent.md):
//
//   struct Remembers : parl::RecurrentModel {
//     torch::nn::GRUCell cell{4, 32}; torch::nn::Linear policy{32, 2}, value{32, 1};
//     Remembers() { register_module("cell", cell); ... }
//     int64_t state_size() const override { return 32; }
//     parl::StepOutput step(const at::Tensor& obs, const at::Tensor& state) override {
//       const at::Tensor h = cell(obs, state);
//       return {{policy(h), value(h).squeeze(-1)}, h};
//     }
//   };
//
// The memory is a row of `state_size()` floats. It is zero before an episode's first observation. What a rollout stores
// is the memory before its first observation; learning walks through the sequence from there, with zeros where an
// episode ended, and gradients do not reach behind the stored memory (Espeholt et al. 2018, arXiv 1802.01561). The
// value of a truncated episode's final observation is that of step(final observation, memory after the step before it).
// Thread rule: as Model's.
#pragma once

#include <memory>

#include "parl/agent/batch.h"
#include "parl/agent/model.h"

namespace parl {

struct StepOutput {
  PolicyValue output;
  at::Tensor state;  // [N, S] float32: the memory after these observations
};

// L observations of B environments each.
struct Sequence {
  at::Tensor obs;    // [B, L, ...obs_shape]
  at::Tensor state;  // [B, S] float32: the memory before obs[:, 0]
  at::Tensor reset;  // [B, L] bool: an episode begins with this observation; the memory before it is zero
  at::Tensor keep;   // [K] int64, b * L + l: after which observations the memory is wanted; undefined: none
};

struct SequenceOutput {
  PolicyValue output;  // row b * L + l
  at::Tensor kept;     // [K, S], without gradient; undefined if K = 0
};

struct SequenceRecording {
  std::unique_ptr<Recording> recording;
  at::Tensor kept;
};

class RecurrentModel : public Model {
 public:
  // Floats of memory for each environment, above 0.
  virtual int64_t state_size() const = 0;
  // One observation of each of N environments: obs [N, ...obs_shape], state [N, S] the memory before it.
  virtual StepOutput step(const at::Tensor& obs, const at::Tensor& state) = 0;
  // Whole sequences. By default step() after step(); a network that can do better overrides it.
  virtual SequenceOutput sequence(const Sequence& in);
  // The same for learning. By default autograd records sequence().
  virtual SequenceRecording record_sequence(const Sequence& in);

  at::Tensor initial_state(int64_t n) const;  // [N, S] zeros, on the CPU
  int64_t preferred_rows() const override { return 0; }
  RecurrentModel* recurrent() final { return this; }
  // An error: there is no output without a memory.
  PolicyValue forward(const at::Tensor& obs) final;
};

// The first `length` observations (at most T + 1) of a batch's unrolls, on `device`; `keep` are its truncated steps.
// Throws parl::Error when the batch holds no memory of the model's size.
Sequence sequence_of(const Batch& batch, int64_t length, const RecurrentModel& model, at::Device device);

}  // namespace parl
