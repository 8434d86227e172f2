// QModel: the critic of continuous control, Q(s, a): what a user writes beside a Model to bring a critic of his own.
//
//   struct MyCritic : parl::QModel {
//     torch::nn::Linear hidden{20, 64}, out{64, 1};
//     MyCritic() { register_module("hidden", hidden); register_module("out", out); }
//     at::Tensor forward(const at::Tensor& obs, const at::Tensor& action) override {
//       return out(hidden(at::cat({obs, action}, 1)).relu()).squeeze(-1);
//     }
//   };
//
// forward: obs [N, ...obs_shape] in the space's dtype; action [N, A] float32, the policy's own, in [-1, 1]; result [N]
// float32. Made by name from the model registry (models/registry.h). Critics stay in evaluation mode and with the
// learner: actors need none. Thread rule: one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "parl/agent/model.h"

namespace parl {

// One forward pass whose gradients are still wanted. Call one of the two, once, before the parameters change.
class QRecording {
 public:
  virtual ~QRecording() = default;
  const at::Tensor& output() const { return output_; }  // [N]
  // Adds d loss / d parameter to every parameter's .grad, given d loss / d Q [N].
  virtual void backward(const at::Tensor& gradient) = 0;
  // d loss / d action [N, A] given d loss / d Q [N]; leaves every .grad alone.
  virtual at::Tensor action_gradient(const at::Tensor& gradient) = 0;

 protected:
  explicit QRecording(at::Tensor output) : output_(std::move(output)) {}

 private:
  at::Tensor output_;
};

class QModel : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& obs, const at::Tensor& action) = 0;
  // Forward for learning. By default autograd records forward(); a network with a hand-written backward pass overrides
  // it.
  virtual std::unique_ptr<QRecording> record(const at::Tensor& obs, const at::Tensor& action);
};

// Makes a fresh critic for a spec with continuous actions.
using QModelFactory = std::function<std::shared_ptr<QModel>(const ModelSpec&)>;

}  // namespace parl
