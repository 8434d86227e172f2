#include "parl/agent/model.h"

#include <torch/torch.h>

#include "parl/agent/module_weights.h"

namespace parl {
namespace {

// The recording of a model that has no backward pass of its own: autograd's graph.
class AutogradRecording : public Recording {
 public:
  explicit AutogradRecording(PolicyValue output) : Recording(std::move(output)) {}
  void backward(const at::Tensor& logits_gradient, const at::Tensor& value_gradient) override {
    // A network may well give a constant, or nothing, for what its algorithm does not use.
    std::vector<at::Tensor> outputs, gradients;
    for (const auto& [out, gradient] :
         {std::pair{output().logits, logits_gradient}, std::pair{output().value, value_gradient}}) {
      if (!out.defined() || !out.requires_grad()) continue;
      outputs.push_back(out);
      gradients.push_back(gradient);
    }
    torch::autograd::backward(outputs, gradients);
  }
};

}  // namespace

std::unique_ptr<Recording> autograd_recording(PolicyValue output) {
  return std::make_unique<AutogradRecording>(std::move(output));
}

std::unique_ptr<Recording> Model::record(const at::Tensor& obs) {
  torch::AutoGradMode grad(true);
  return autograd_recording(forward(obs));
}

Weights Model::get_weights() const { return module_weights(*this); }

void Model::set_weights(const Weights& weights) { set_module_weights(*this, weights); }

void Model::sync_weights_to(Model& target, double decay) const { sync_modules(*this, target, decay); }

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const at::Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

}  // namespace parl
