// DictNet: a network over an observation of parts (a Dict, a Tuple, numbers to choose by).
//
// Every part is embedded by itself: an image [H, W, C] of uint8 or float32 by convolutions (those of nature,
// impala_shallow or minatar, by its size) and a linear layer of 128; quantities (float32 or whole numbers) and numbers
// to choose by (one-hot) by a linear layer of 64, tanh. Side by side they go through one layer of 128, tanh, to the
// policy and the value, or ends there as the trunk of a memory (dict_lstm). A part `action_mask` is left out: a
// MaskedModel uses it. Quantities come as they are: an environment should keep them near -1..1. Weights:
// "<part>_conv1.weight", "<part>.weight", "joint.weight", "policy.weight", "value.weight", ... and "log_std" for
// continuous actions; what no name may hold ('.', '/') becomes '_'. Thread rule: one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "parl/models/cnn.h"

namespace parl {

class DictNet : public Model {
 public:
  static constexpr int64_t kFeatures = 128;  // of the joint layer
  explicit DictNet(const ModelSpec& spec);
  PolicyValue forward(const at::Tensor& obs) override;
  bool is_gaussian() const override { return spec_.action_size > 0; }

 private:
  struct Layer {
    at::Tensor weight, bias;
  };
  struct Input {
    ObsPart part;
    std::vector<ConvLayer> shape;  // of the convolutions; empty: not an image
    std::vector<Layer> convolutions;
    Layer linear;
  };
  Layer add_linear(const std::string& name, int64_t in, int64_t out, double gain);
  Layer add_convolution(const std::string& name, const ConvLayer& shape, int64_t channels, bool of_pixels);
  Input add_input(const ObsPart& part, const std::string& name);
  at::Tensor embed(const Input& input, const at::Tensor& obs) const;

  ModelSpec spec_;
  std::vector<Input> inputs_;
  Layer joint_, policy_, value_;
  at::Tensor log_std_;
};

}  // namespace parl
