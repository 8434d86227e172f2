#include "parl/agent/model.h"

#include <torch/torch.h>

#include <map>
#include <sstream>

#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"

namespace parl {
namespace {

// The recording of a model that has no backward pass of its own: autograd's graph.
class AutogradRecording : public Recording {
 public:
  explicit AutogradRecording(PolicyValue output) : Recording(std::move(output)) {}
  void backward(const at::Tensor& logits_gradient, const at::Tensor& value_gradient) override {
    if (output().value.defined()) {
      torch::autograd::backward({output().logits, output().value}, {logits_gradient, value_gradient});
    } else {
      torch::autograd::backward({output().logits}, {logits_gradient});
    }
  }
};

std::vector<std::pair<std::string, at::Tensor>> named_tensors(const torch::nn::Module& model) {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const auto& item : model.named_parameters()) out.emplace_back(item.key(), item.value());
  for (const auto& item : model.named_buffers()) out.emplace_back(item.key(), item.value());
  return out;
}

std::string shape_string(at::IntArrayRef sizes) {
  std::ostringstream os;
  os << sizes;
  return os.str();
}

}  // namespace

std::unique_ptr<Recording> autograd_recording(PolicyValue output) {
  return std::make_unique<AutogradRecording>(std::move(output));
}

std::unique_ptr<Recording> Model::record(const at::Tensor& obs) {
  torch::AutoGradMode grad(true);
  return autograd_recording(forward(obs));
}

Weights Model::get_weights() const {
  Weights weights;
  for (const auto& [name, tensor] : named_tensors(*this)) weights.entries.push_back({name, to_array(tensor)});
  return weights;
}

void Model::set_weights(const Weights& weights) {
  torch::NoGradGuard no_grad;
  auto mine = named_tensors(*this);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : mine) names.push_back(name);
  for (const NamedArray& entry : weights.entries) {
    PARL_CHECK(std::find(names.begin(), names.end(), entry.name) != names.end(),
               "the model has no weight '{}'{}; is it the same network?", entry.name, did_you_mean(entry.name, names));
  }
  PARL_CHECK_EQ(weights.entries.size(), mine.size(), "the number of weights differs from the model's");
  std::vector<const Array*> sources;
  for (const auto& [name, tensor] : mine) {
    const Array* source = find_entry(weights, name);
    PARL_CHECK(source != nullptr, "weight '{}' is missing", name);
    PARL_CHECK(tensor.sizes() == at::IntArrayRef(source->shape()), "weight '{}' has shape {}, the model's is {}", name,
               shape_string(source->shape()), shape_string(tensor.sizes()));
    to_scalar_type(source->dtype());
    sources.push_back(source);
  }
  for (size_t i = 0; i < mine.size(); ++i) {
    at::Tensor view = at::from_blob(const_cast<std::byte*>(sources[i]->data()), sources[i]->shape(),
                                    at::TensorOptions(to_scalar_type(sources[i]->dtype())));
    if (view.numel() > 0) mine[i].second.copy_(view);
  }
}

void Model::sync_weights_to(Model& target, double decay) const {
  PARL_CHECK(this != &target, "sync_weights_to: source and target are the same model");
  PARL_CHECK(decay >= 0 && decay <= 1, "sync_weights_to: decay is {}, expected 0..1", decay);
  torch::NoGradGuard no_grad;
  auto from = named_tensors(*this), to = named_tensors(target);
  PARL_CHECK_EQ(from.size(), to.size(), "sync_weights_to: the models have different numbers of weights");
  for (size_t i = 0; i < from.size(); ++i) {
    PARL_CHECK(from[i].first == to[i].first && from[i].second.sizes() == to[i].second.sizes(),
               "sync_weights_to: weight '{}' {} meets '{}' {}", from[i].first, shape_string(from[i].second.sizes()),
               to[i].first, shape_string(to[i].second.sizes()));
  }
  for (size_t i = 0; i < from.size(); ++i) {
    at::Tensor source = from[i].second.to(to[i].second.device());
    if (decay == 0 || !source.is_floating_point()) {
      to[i].second.copy_(source);
    } else {
      to[i].second.mul_(decay).add_(source, 1 - decay);
    }
  }
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const at::Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

}  // namespace parl
