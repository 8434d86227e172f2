#include "parl/models/cnn.h"

#include <torch/torch.h>

#include "parl/agent/init.h"
#include "parl/core/check.h"
#include "parl/models/image_input.h"
#include "parl/models/internal/fused_backend.h"

namespace parl {

void check_image_spec(const ModelSpec& spec, const char* model) {
  PARL_CHECK(spec.obs_shape.size() == 3,
             "{} needs images [height, width, channels]; this environment's observations have {} dimensions (use mlp?)",
             model, spec.obs_shape.size());
  PARL_CHECK(spec.obs_dtype == DType::kU8 || spec.obs_dtype == DType::kF32, "{} needs uint8 or float32 images, got {}",
             model, dtype_name(spec.obs_dtype));
  PARL_CHECK(spec.action_size == 0, "{} has a policy over Discrete actions; this environment's actions are continuous",
             model);
}

at::Tensor image_to_float(const at::Tensor& obs, const ModelSpec& spec) {
  PARL_CHECK(obs.dim() == 4 && obs.sizes().slice(1) == at::IntArrayRef(spec.obs_shape),
             "observations must be [N, {}, {}, {}]", spec.obs_shape[0], spec.obs_shape[1], spec.obs_shape[2]);
  return obs.permute({0, 3, 1, 2}).to(at::kFloat);
}

namespace {
at::ScalarType to_obs_type(const ModelSpec& spec) { return spec.obs_dtype == DType::kU8 ? at::kByte : at::kFloat; }
}  // namespace

std::vector<ConvLayer> atari42_layers() { return {{16, 4, 2, 1}, {32, 4, 2, 2}, {256, 0}}; }
std::vector<ConvLayer> nature_layers() { return {{32, 8, 4, 0}, {64, 4, 2, 0}, {64, 3, 1, 0}, {512, 0}}; }
std::vector<ConvLayer> impala_shallow_layers() { return {{16, 8, 4, 0}, {32, 4, 2, 0}, {256, 0}}; }
std::vector<ConvLayer> minatar_layers() { return {{16, 3, 1, 0}, {128, 0}}; }

Cnn::Cnn(const ModelSpec& spec, std::vector<ConvLayer> layers) : spec_(spec), layers_(std::move(layers)) {
  check_image_spec(spec, "a convolutional network");
  int64_t height = spec.obs_shape[0], width = spec.obs_shape[1], channels = spec.obs_shape[2];
  for (size_t i = 0; i < layers_.size(); ++i) {
    ConvLayer& layer = layers_[i];
    const int64_t kh = layer.kernel ? layer.kernel : height, kw = layer.kernel ? layer.kernel : width;
    const std::string name = "conv" + std::to_string(i + 1);
    PARL_CHECK(height + 2 * layer.padding >= kh && width + 2 * layer.padding >= kw,
               "{}: an image of {}x{} is too small for a kernel of {}; use a smaller network", name, height, width, kh);
    at::Tensor weight = torch::empty({layer.out, channels, kh, kw}).contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor bias = torch::empty({layer.out});
    // Boards of few cells have full contrast as they are.
    const bool picture = spec.obs_dtype == DType::kU8 && std::min(height, width) >= 20;
    if (i == 0 && picture) {
      pixel_init(weight, bias, kPixelGain);
    } else {
      orthogonal_init(weight, bias, kReluGain);
    }
    auto module = register_module(name, std::make_shared<torch::nn::Module>(name));
    weights_.push_back(module->register_parameter("weight", weight));
    biases_.push_back(module->register_parameter("bias", bias));
    height = (height + 2 * layer.padding - kh) / layer.stride + 1;
    width = (width + 2 * layer.padding - kw) / layer.stride + 1;
    channels = layer.out;
  }
  PARL_CHECK(height == 1 && width == 1, "the last convolution must leave one pixel (kernel 0), it leaves {}x{}", height,
             width);
  if (!spec.headless()) {
    torch::nn::Linear policy(channels, spec.num_actions), value(channels, 1);
    orthogonal_init(policy->weight, policy->bias, kPolicyGain);
    orthogonal_init(value->weight, value->bias, 1.0);
    register_module("policy", policy);
    register_module("value", value);
    policy_weight_ = policy->weight;
    policy_bias_ = policy->bias;
    value_weight_ = value->weight;
    value_bias_ = value->bias;
  }
  internal::NetworkTensors tensors{weights_, biases_, policy_weight_, policy_bias_, value_weight_, value_bias_};
  fused_ = internal::FusedBackend::make(spec_, layers_, std::move(tensors));
}

Cnn::~Cnn() = default;

bool Cnn::is_fused_for(const at::Tensor& obs) const {
  return fused_ && obs.is_cpu() && weights_[0].is_cpu() && obs.scalar_type() == to_obs_type(spec_);
}

PolicyValue Cnn::forward(const at::Tensor& obs) {
  const bool differentiable = at::GradMode::is_enabled() && weights_[0].requires_grad();
  return is_fused_for(obs) && !differentiable ? fused_->forward(obs) : forward_with_torch(obs);
}

std::unique_ptr<Recording> Cnn::record(const at::Tensor& obs) {
  return is_fused_for(obs) ? fused_->record(fused_, obs) : Model::record(obs);
}

PolicyValue Cnn::forward_with_torch(const at::Tensor& obs) {
  at::Tensor x = image_to_float(obs, spec_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    at::Tensor weight = i == 0 && spec_.obs_dtype == DType::kU8 ? weights_[i] * kPixelScale : weights_[i];
    x = at::conv2d(x, weight, biases_[i], layers_[i].stride, layers_[i].padding);
    x = x.relu();
  }
  x = x.flatten(1);
  if (spec_.headless()) return {x, at::Tensor()};
  return {at::linear(x, policy_weight_, policy_bias_), at::linear(x, value_weight_, value_bias_).squeeze(-1)};
}

}  // namespace parl
