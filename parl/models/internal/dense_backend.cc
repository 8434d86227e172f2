#include "parl/models/internal/dense_backend.h"

#include <torch/torch.h>

#include <cstring>

#include "parl/core/check.h"
#include "parl/models/image_input.h"

namespace parl::internal {

at::Tensor dense_with_torch(const DenseParameters& parameters, at::Tensor x) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    x = at::linear(x, parameters[i].first, parameters[i].second);
    if (i + 1 < parameters.size()) x = x.relu();
  }
  return x;
}

at::Tensor flat_floats(const at::Tensor& obs) {
  const at::Tensor x = obs.flatten(1);
  return x.scalar_type() == at::kByte ? x.to(at::kFloat) * kPixelScale : x.to(at::kFloat);
}

#ifdef PARL_HAS_DENSE_KERNELS

std::shared_ptr<DensePass> DenseBackend::take() {
  for (const auto& pass : passes_) {
    if (pass.use_count() == 1) return pass;
  }
  return passes_.emplace_back(std::make_shared<DensePass>());
}

const std::vector<DenseLayer>& DenseBackend::layers() {
  layers_.clear();
  for (const auto& [weight, bias] : parameters_) {
    PARL_CHECK(weight.is_contiguous() && bias.is_contiguous(), "the weights of a dense layer must be contiguous");
    layers_.push_back({static_cast<int>(weight.size(1)), static_cast<int>(weight.size(0)),
                       weight.const_data_ptr<float>(), bias.const_data_ptr<float>(), nullptr, nullptr});
  }
  return layers_;
}

const std::vector<DenseLayer>& DenseBackend::layers_with_gradients() {
  layers();
  const auto place = [](const at::Tensor& parameter) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) gradient = torch::zeros_like(parameter, at::TensorOptions().requires_grad(false));
    PARL_CHECK(gradient.is_contiguous(), "the gradients of a dense layer must be contiguous");
    return gradient.mutable_data_ptr<float>();
  };
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].weight_gradient = place(parameters_[i].first);
    layers_[i].bias_gradient = place(parameters_[i].second);
  }
  return layers_;
}

void copy_rows(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * to_row, from + i * from_row, static_cast<size_t>(columns) * sizeof(float));
  }
}

#endif

}  // namespace parl::internal
