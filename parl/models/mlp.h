// Mlp: fully connected tanh layers over the flattened observation, then a policy and a value head.
// Weights: "layer1.weight", ..., "policy.weight", "value.weight" and biases, as torch.nn.Linear has them.
// Observations of any shape and number type (uint8 counts as x / 255). Discrete actions. One thread at a time.
#pragma once

#include <vector>

#include "parl/agent/model.h"

namespace parl {

class Mlp : public Model {
 public:
  explicit Mlp(const ModelSpec& spec, std::vector<int64_t> hidden = {64, 64});
  PolicyValue forward(const at::Tensor& obs) override;

 private:
  struct Layer {
    at::Tensor weight, bias;
  };
  Layer add_linear(const std::string& name, int64_t in, int64_t out, double gain);

  ModelSpec spec_;
  std::vector<Layer> layers_;
  Layer policy_, value_;
};

}  // namespace parl
