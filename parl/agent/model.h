// Model: the forward network, the one thing a user writes for a new environment. Algorithms use it unchanged.
//
//   struct MyNet : parl::Model {
//     torch::nn::Linear trunk{4, 64}, policy{64, 2}, value{64, 1};
//     MyNet() { register_module("trunk", trunk); ... }
//     PolicyValue forward(const at::Tensor& obs) override {
//       auto h = trunk(obs).relu();
//       return {policy(h), value(h).squeeze(-1)};       // one trunk pass for both
//     }
//   };
//
// forward: obs [N, ...obs_shape] in the space's dtype (uint8 images [N, H, W, C]); logits [N, A] float32, value [N]
// float32. Algorithms keep models in evaluation mode (no dropout, fixed batch statistics): acting and learning must see
// the same network. Thread rule: one thread at a time. The parameters' names, in registration order, name the weights
// everywhere.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parl/agent/spec.h"
#include "parl/agent/weights.h"

namespace parl {

struct PolicyValue {
  at::Tensor logits;  // [N, A]; of a Gaussian policy its parameters [N, 2A]
  at::Tensor value;   // [N]
};

// One forward pass whose gradient is still wanted.
class Recording {
 public:
  virtual ~Recording() = default;
  const PolicyValue& output() const { return output_; }
  // Adds d loss / d parameter to every parameter's .grad, given d loss / d logits [N, A] and d loss / d value [N].
  // Call it at most once, before the parameters change.
  virtual void backward(const at::Tensor& logits_gradient, const at::Tensor& value_gradient) = 0;

 protected:
  explicit Recording(PolicyValue output) : output_(std::move(output)) {}

 private:
  PolicyValue output_;
};

// The recording of a pass whose graph autograd has: outputs that require gradients. An undefined value has none.
std::unique_ptr<Recording> autograd_recording(PolicyValue output);

class RecurrentModel;

class Model : public torch::nn::Module {
 public:
  virtual PolicyValue forward(const at::Tensor& obs) = 0;

  // True: actions are continuous, and `logits` are the parameters of a diagonal Gaussian (agent/gaussian.h).
  virtual bool is_gaussian() const { return false; }

  // Several numbers an action: the choices of each (ModelSpec::action_choices); empty: one action, or floats. A model
  // that a ModelRegistry makes has them set.
  const std::vector<int64_t>& action_choices() const { return action_choices_; }
  void set_action_choices(std::vector<int64_t> choices) { action_choices_ = std::move(choices); }

  // Forward for learning. By default autograd records forward(); a network with a hand-written backward pass overrides
  // it. Outputs equal those of forward() up to rounding.
  virtual std::unique_ptr<Recording> record(const at::Tensor& obs);
  // How many observations record() handles best at a time (what fits the caches); 0: any number.
  virtual int64_t preferred_rows() const { return 256; }

  // Not null: the network has a memory (agent/recurrent.h), and acting and learning go through its step() and
  // sequence() instead of forward() and record().
  virtual RecurrentModel* recurrent() { return nullptr; }
  // Training data that was learnt from, obs [B, T, ...obs_shape], once and after its update: for networks that keep
  // statistics of what they see (models/normalized.h). They count from the next version of the weights on.
  virtual void observe(const at::Tensor& /*obs*/) {}

  // Weights by name: parameters and buffers, in their own type, on the CPU. set_weights checks count, names and shapes
  // and names what differs; nothing is changed when it throws.
  Weights get_weights() const;
  void set_weights(const Weights& weights);
  // target = decay * target + (1 - decay) * this. PARL's sync_weights_to.
  void sync_weights_to(Model& target, double decay = 0.0) const;
  int64_t parameter_count() const;

 private:
  std::vector<int64_t> action_choices_;
};

// Makes a fresh model for a spec; models/ has a registry of them by name.
using ModelFactory = std::function<std::shared_ptr<Model>(const ModelSpec&)>;

}  // namespace parl
