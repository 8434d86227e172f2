// ImpalaDeep: the deep residual network of Espeholt et al. 2018 (arXiv 1802.01561, figure 3, right), without its LSTM
// (lstm.h).
//
// Three sections of 16, 32, 32 channels: convolution 3x3, max-pooling 3x3 / 2, two residual blocks of two 3x3
// convolutions; then ReLU, linear 256, ReLU, policy and value. A headless spec
// (agent/spec.h) leaves those two out. 1.1 M parameters at 84x84x4. Observations: [N, H, W, C]
// uint8 (counted as x / 255) or float32. Thread rule: one thread at a time.
#pragma once

#include <vector>

#include "parl/agent/model.h"

namespace parl {

class ImpalaDeep : public Model {
 public:
  explicit ImpalaDeep(const ModelSpec& spec, std::vector<int64_t> channels = {16, 32, 32}, int64_t hidden = 256);
  PolicyValue forward(const at::Tensor& obs) override;
  int64_t preferred_rows() const override { return 64; }

 private:
  struct Layer {
    at::Tensor weight, bias;
    at::Tensor conv(const at::Tensor& x) const;
  };
  struct Section {
    Layer entry;
    std::vector<Layer> residual;  // four
  };
  // pixels: the first layer over uint8 images.
  Layer add_conv(const std::string& name, int64_t in, int64_t out, bool pixels);
  Layer add_linear(const std::string& name, int64_t in, int64_t out, double gain);

  ModelSpec spec_;
  std::vector<Section> sections_;
  Layer hidden_, policy_, value_;
};

}  // namespace parl
