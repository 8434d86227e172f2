// Mlp: fully connected tanh layers over the flattened observation, then a policy and a value head.
// Weights: "layer1.weight", ..., "policy.weight", "value.weight" and biases, as torch.nn.Linear has them.
// "log_std" [A] too for continuous actions: deviations that do not depend on the observation, 1 at the start.
// A headless spec (agent/spec.h) makes the layers alone.
// Observations of any shape and number type (uint8 counts as x / 255). Discrete or continuous actions. One thread at a
// time.
#pragma once

#include <vector>

#include "parl/agent/model.h"

namespace parl {

class Mlp : public Model {
 public:
  explicit Mlp(const ModelSpec& spec, std::vector<int64_t> hidden = {64, 64});
  PolicyValue forward(const at::Tensor& obs) override;
  bool is_gaussian() const override { return spec_.action_size > 0; }

 private:
  struct Layer {
    at::Tensor weight, bias;
  };
  Layer add_linear(const std::string& name, int64_t in, int64_t out, double gain);

  ModelSpec spec_;
  std::vector<Layer> layers_;
  Layer policy_, value_;
  at::Tensor log_std_;
};

}  // namespace parl
