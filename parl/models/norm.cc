#include "parl/models/norm.h"

#include <torch/torch.h>

#include <tuple>
#include <utility>

#include "parl/agent/init.h"
#include "parl/core/check.h"
#include "parl/models/flat_input.h"
#include "parl/models/image_input.h"

namespace parl {
namespace {

// A head of `outputs`, registered under `name`: its weight and bias.
std::pair<at::Tensor, at::Tensor> add_head(Model& model, const std::string& name, int64_t inputs, int64_t outputs,
                                           double gain) {
  torch::nn::Linear linear(inputs, outputs);
  orthogonal_init(linear->weight, linear->bias, gain);
  model.register_module(name, linear);
  return {linear->weight, linear->bias};
}

std::pair<at::Tensor, at::Tensor> add_norm(Model& model, size_t number, int64_t size) {
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({size}));
  model.register_module("norm" + std::to_string(number), norm);
  return {norm->weight, norm->bias};
}

void check_discrete(const ModelSpec& spec, const char* model) {
  PARL_CHECK(spec.num_actions > 0, "{} has a head over Discrete actions; this environment's actions are continuous",
             model);
}

}  // namespace

MlpNorm::MlpNorm(const ModelSpec& spec, std::vector<int64_t> hidden) : spec_(spec) {
  check_discrete(spec, "mlp_norm");
  int64_t size = flat_size(spec, "mlp_norm");
  for (size_t i = 0; i < hidden.size(); ++i) {
    NormedLayer layer;
    std::tie(layer.weight, layer.bias) = add_head(*this, "layer" + std::to_string(i + 1), size, hidden[i], kReluGain);
    std::tie(layer.scale, layer.shift) = add_norm(*this, i + 1, hidden[i]);
    layers_.push_back(layer);
    size = hidden[i];
  }
  std::tie(policy_weight_, policy_bias_) = add_head(*this, "policy", size, spec.num_actions, kPolicyGain);
  std::tie(value_weight_, value_bias_) = add_head(*this, "value", size, 1, 1.0);
}

PolicyValue MlpNorm::forward(const at::Tensor& obs) {
  at::Tensor x = obs.flatten(1).to(at::kFloat);
  if (spec_.obs_dtype == DType::kU8) x = x * kPixelScale;
  for (const NormedLayer& layer : layers_) {
    x = at::linear(x, layer.weight, layer.bias);
    x = at::layer_norm(x, {x.size(1)}, layer.scale, layer.shift).relu();
  }
  return {at::linear(x, policy_weight_, policy_bias_), at::linear(x, value_weight_, value_bias_).squeeze(-1)};
}

CnnNorm::CnnNorm(const ModelSpec& spec, std::vector<ConvLayer> layers) : spec_(spec), layers_(std::move(layers)) {
  check_image_spec(spec, "a convolutional network");
  int64_t height = spec.obs_shape[0], width = spec.obs_shape[1], channels = spec.obs_shape[2];
  for (size_t i = 0; i < layers_.size(); ++i) {
    const ConvLayer& layer = layers_[i];
    const int64_t kh = layer.kernel ? layer.kernel : height, kw = layer.kernel ? layer.kernel : width;
    PARL_CHECK(height + 2 * layer.padding >= kh && width + 2 * layer.padding >= kw,
               "conv{}: an image of {}x{} is too small for a kernel of {}; use a smaller network", i + 1, height, width,
               kh);
    NormedLayer part;
    part.weight = torch::empty({layer.out, channels, kh, kw}).contiguous(at::MemoryFormat::ChannelsLast);
    part.bias = torch::empty({layer.out});
    orthogonal_init(part.weight, part.bias, kReluGain);
    const std::string name = "conv" + std::to_string(i + 1);
    auto module = register_module(name, std::make_shared<torch::nn::Module>(name));
    part.weight = module->register_parameter("weight", part.weight);
    part.bias = module->register_parameter("bias", part.bias);
    std::tie(part.scale, part.shift) = add_norm(*this, i + 1, layer.out);
    parts_.push_back(part);
    height = (height + 2 * layer.padding - kh) / layer.stride + 1;
    width = (width + 2 * layer.padding - kw) / layer.stride + 1;
    channels = layer.out;
  }
  PARL_CHECK(height == 1 && width == 1, "the last convolution must leave one pixel (kernel 0), it leaves {}x{}", height,
             width);
  std::tie(policy_weight_, policy_bias_) = add_head(*this, "policy", channels, spec.num_actions, kPolicyGain);
  std::tie(value_weight_, value_bias_) = add_head(*this, "value", channels, 1, 1.0);
}

PolicyValue CnnNorm::forward(const at::Tensor& obs) {
  at::Tensor x = image_to_float(obs, spec_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const NormedLayer& part = parts_[i];
    const at::Tensor weight = i == 0 && spec_.obs_dtype == DType::kU8 ? part.weight * kPixelScale : part.weight;
    x = at::conv2d(x, weight, part.bias, layers_[i].stride, layers_[i].padding);
    x = at::layer_norm(x.permute({0, 2, 3, 1}), {x.size(1)}, part.scale, part.shift).relu().permute({0, 3, 1, 2});
  }
  x = x.flatten(1);
  return {at::linear(x, policy_weight_, policy_bias_), at::linear(x, value_weight_, value_bias_).squeeze(-1)};
}

}  // namespace parl
