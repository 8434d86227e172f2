// Networks with LayerNorm (Ba et al. 2016, arXiv 1607.06450), which hold temporal-difference learning together without
// a target network (Gallici et al. 2024, arXiv 2407.04811: PQN). Thread rule: one thread at a time.
//
// MlpNorm: linear layers, each followed by LayerNorm and ReLU, over the flattened observation; then a policy and a
// value
//   head. Weights: "layer1.weight", "layer1.bias", "norm1.weight", "norm1.bias", ..., "policy.weight", "value.weight"
//   and their biases. Observations of any shape and number type (uint8 counts as x / 255).
// CnnNorm: as Cnn (cnn.h), with LayerNorm over the channels of every pixel between each convolution and its ReLU, as
// the
//   authors' network has it. Weights: "conv1...", "norm1...", ..., "policy...", "value...". Observations [N, H, W, C].
// Both for Discrete actions.
#pragma once

#include <vector>

#include "parl/agent/model.h"
#include "parl/models/cnn.h"

namespace parl {

// A linear layer or convolution and the LayerNorm after it.
struct NormedLayer {
  at::Tensor weight, bias, scale, shift;
};

class MlpNorm : public Model {
 public:
  explicit MlpNorm(const ModelSpec& spec, std::vector<int64_t> hidden = {128, 128});
  PolicyValue forward(const at::Tensor& obs) override;

 private:
  ModelSpec spec_;
  std::vector<NormedLayer> layers_;
  at::Tensor policy_weight_, policy_bias_, value_weight_, value_bias_;
};

class CnnNorm : public Model {
 public:
  CnnNorm(const ModelSpec& spec, std::vector<ConvLayer> layers);
  PolicyValue forward(const at::Tensor& obs) override;

 private:
  ModelSpec spec_;
  std::vector<ConvLayer> layers_;
  std::vector<NormedLayer> parts_;
  at::Tensor policy_weight_, policy_bias_, value_weight_, value_bias_;
};

}  // namespace parl
