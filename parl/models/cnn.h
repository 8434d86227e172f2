// Cnn: a stack of convolutions with ReLU, the last of which leaves one pixel, then a policy and a value head.
//
// Weights are "conv1.weight" [out, in, k, k] (channels-last memory) and "conv1.bias", ..., "policy.weight",
// "value.weight" and their biases. A linear layer after the convolutions is written as a convolution over all that is
// left (kernel 0): the same numbers, without PyTorch's reordering of pixels. uint8 pixels count as pixel / 255.
// A headless spec (agent/spec.h) leaves policy and value out: the features are the last convolution's.
// Observations: [N, H, W, C] uint8 or float32. Thread rule: one thread at a time.
//
// On the CPU, where AVX-512 is compiled in (PARL_NATIVE), forward() without gradients and record() run hand-written
// passes (internal/fused_cnn.h); else, and wherever autograd is wanted from forward(), torch's operators do. A network
// that they do not support (channels not 16 or a multiple of 32, ...) always uses torch.
#pragma once

#include <memory>
#include <vector>

#include "parl/agent/model.h"

namespace parl {

struct ConvLayer {
  int64_t out = 0;     // channels
  int64_t kernel = 0;  // 0: the whole remaining image
  int64_t stride = 1;
  int64_t padding = 0;
};

std::vector<ConvLayer> atari42_layers();         // PARL 1.1's A2C / IMPALA network
std::vector<ConvLayer> nature_layers();          // Mnih et al. 2015, doi 10.1038/nature14236
std::vector<ConvLayer> impala_shallow_layers();  // Espeholt et al. 2018, arXiv 1802.01561, without the LSTM (lstm.h)
std::vector<ConvLayer> minatar_layers();         // Young & Tian 2019, arXiv 1903.03176, for 10 x 10 cells

namespace internal {
class FusedBackend;
}

class Cnn : public Model {
 public:
  Cnn(const ModelSpec& spec, std::vector<ConvLayer> layers);
  ~Cnn() override;

  PolicyValue forward(const at::Tensor& obs) override;
  std::unique_ptr<Recording> record(const at::Tensor& obs) override;
  int64_t preferred_rows() const override { return 288; }
  // Whether forward() and record() use the hand-written passes for such observations.
  bool is_fused_for(const at::Tensor& obs) const;
  // Forward by torch's operators alone: differentiable, and the reference for the hand-written passes.
  PolicyValue forward_with_torch(const at::Tensor& obs);

 private:
  ModelSpec spec_;
  std::vector<ConvLayer> layers_;
  std::vector<at::Tensor> weights_, biases_;  // of the convolutions
  at::Tensor policy_weight_, policy_bias_, value_weight_, value_bias_;
  std::shared_ptr<internal::FusedBackend> fused_;  // null when unsupported; recordings share it
};

}  // namespace parl
