#include "parl/agent/q_model.h"

#include <torch/torch.h>

namespace parl {
namespace {

class AutogradQRecording : public QRecording {
 public:
  AutogradQRecording(at::Tensor output, at::Tensor action)
      : QRecording(std::move(output)), action_(std::move(action)) {}
  void backward(const at::Tensor& gradient) override { torch::autograd::backward({output()}, {gradient}); }
  at::Tensor action_gradient(const at::Tensor& gradient) override {
    return torch::autograd::grad({output()}, {action_}, {gradient})[0];
  }

 private:
  at::Tensor action_;
};

}  // namespace

std::unique_ptr<QRecording> QModel::record(const at::Tensor& obs, const at::Tensor& action) {
  torch::AutoGradMode grad(true);
  at::Tensor input = action.detach();
  input.set_requires_grad(true);
  at::Tensor output = forward(obs, input);
  return std::make_unique<AutogradQRecording>(std::move(output), std::move(input));
}

}  // namespace parl
