// DictNet: a network over an observation of parts (a Dict, a Tuple, numbers to choose by).
//
// Every part is embedded by itself: an image [H, W, C] of uint8 or float32 by convolutions (those of nature,
// impala_shallow or minatar, by its size) and a linear layer of 128; quantities (float32 or whole numbers) and numbers
// to choose by (one-hot) by a linear layer of 64, tanh. Side by side they go through one layer of 128, tanh, to the
// policy and the value, or ends there as the trunk of a memory (dict_lstm). A part `action_mask` is left out: a
// MaskedModel uses it. Quantities come as they are: an environment should keep them near -1..1.
// Weights: "<part>_conv1.weight", "<part>.weight", "joint.weight", "policy.weight", "value.weight", ... and "log_std"
// for continuous actions; what no name may hold ('.', '/') becomes '_'.
// DictCritic: Q(s, a) over the same parts: their embeddings (weights of its own) and the action side by side, through
// two layers of 256, ReLU, to one number. Weights: those of the parts, "joint1.weight", "joint2.weight", "head.weight",
// ... Thread rule: one thread at a time.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "parl/agent/q_model.h"
#include "parl/models/cnn.h"

namespace parl {

// The layers of the parts. Private to the two networks below.
class PartLayers {
 public:
  struct Layer {
    at::Tensor weight, bias;
  };
  // Registers them with `owner`, by names that are not yet `taken`.
  PartLayers(torch::nn::Module& owner, const ModelSpec& spec, std::set<std::string> taken);
  at::Tensor forward(const at::Tensor& obs) const;  // [N, features()]
  int64_t features() const { return features_; }

 private:
  struct Input {
    ObsPart part;
    std::vector<ConvLayer> shape;  // of the convolutions; empty: not an image
    std::vector<Layer> convolutions;
    Layer linear;
  };
  static Input add_input(torch::nn::Module& owner, const ObsPart& part, const std::string& name);
  static at::Tensor embed(const Input& input, const at::Tensor& obs);

  std::vector<Input> inputs_;
  int64_t features_ = 0;
};

class DictNet : public Model {
 public:
  static constexpr int64_t kFeatures = 128;  // of the joint layer
  explicit DictNet(const ModelSpec& spec);
  PolicyValue forward(const at::Tensor& obs) override;
  bool is_gaussian() const override { return spec_.action_size > 0; }

 private:
  ModelSpec spec_;
  PartLayers parts_;
  PartLayers::Layer joint_, policy_, value_;
  at::Tensor log_std_;
};

class DictCritic : public QModel {
 public:
  // spec: with continuous actions.
  explicit DictCritic(const ModelSpec& spec);
  at::Tensor forward(const at::Tensor& obs, const at::Tensor& action) override;

 private:
  PartLayers parts_;
  PartLayers::Layer joint1_, joint2_, head_;
};

}  // namespace parl
