// LstmModel: a long short-term memory (Hochreiter & Schmidhuber 1997, doi 10.1162/neco.1997.9.8.1735) between a trunk
// and the heads, as IMPALA has it (Espeholt et al. 2018, arXiv 1802.01561, figure 3).
//
//   i, f, g, o = split(weight_ih x + weight_hh h + bias);  c = sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o)
//   tanh(c)
// x: the trunk's features of one observation. The memory is h, then c: 2 * hidden floats. Policy and value are linear
// in h. Gates stand in PyTorch's order; one bias, where PyTorch has two that it adds. At the start weights are
// orthogonal, the bias of f is 1 (what is remembered stays so) and the others are 0. Weights: "trunk....",
// "lstm.weight_ih" [4H, F], "lstm.weight_hh" [4H, H], "lstm.bias" [4H], "policy....", "value....", and "log_std" [A]
// for continuous actions. Sequences: the trunk sees all observations at once (hand-written passes included,
// models/cnn.h), the input's part of the gates is one matrix product, and the steps' own backward pass is written by
// hand: no autograd graph over time. Thread rule: one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "parl/agent/recurrent.h"

namespace parl {

class LstmModel : public RecurrentModel {
 public:
  // `trunk`: a network without heads: its forward() gives `features` floats an observation as logits (a built-in one is
  // made so by trunk_spec()).
  LstmModel(const ModelSpec& spec, std::shared_ptr<Model> trunk, int64_t features, int64_t hidden);

  int64_t state_size() const override { return 2 * hidden_; }
  StepOutput step(const at::Tensor& obs, const at::Tensor& state) override;
  SequenceOutput sequence(const Sequence& in) override;
  SequenceRecording record_sequence(const Sequence& in) override;
  bool is_gaussian() const override { return log_std_.defined(); }

 private:
  // At most as many rows as the trunk likes at a time.
  std::vector<at::Tensor> pieces_of(const at::Tensor& rows) const;
  // From features [B * L, F] on.
  SequenceOutput remember(const at::Tensor& features, const Sequence& in) const;
  PolicyValue heads(const at::Tensor& h) const;

  std::shared_ptr<Model> trunk_;
  int64_t hidden_;
  at::Tensor weight_ih_, weight_hh_, bias_;
  at::Tensor policy_weight_, policy_bias_, value_weight_, value_bias_, log_std_;
};

// The spec of a network without heads over the same observations.
ModelSpec trunk_spec(ModelSpec spec);

// The steps of the memory alone, differentiable in `input`, `state` and `weight`. input [B, L, 4H]: weight_ih x + bias;
// state [B, 2H]; reset [B, L] bool; weight: weight_hh. Gives h and c after every step, [B, L, H] each.
std::pair<at::Tensor, at::Tensor> lstm_steps(const at::Tensor& input, const at::Tensor& state, const at::Tensor& reset,
                                             const at::Tensor& weight);

}  // namespace parl
