#include "parl/models/mlp.h"

#include <torch/torch.h>

#include "parl/agent/init.h"
#include "parl/models/flat_input.h"
#include "parl/models/image_input.h"

namespace parl {

Mlp::Mlp(const ModelSpec& spec, std::vector<int64_t> hidden) : spec_(spec) {
  int64_t size = flat_size(spec, "mlp");
  for (size_t i = 0; i < hidden.size(); ++i) {
    layers_.push_back(add_linear("layer" + std::to_string(i + 1), size, hidden[i], kReluGain));
    size = hidden[i];
  }
  if (spec.headless()) return;
  policy_ = add_linear("policy", size, is_gaussian() ? spec.action_size : spec.num_actions, kPolicyGain);
  if (is_gaussian()) log_std_ = register_parameter("log_std", torch::zeros({spec.action_size}));
  value_ = add_linear("value", size, 1, 1.0);
}

Mlp::Layer Mlp::add_linear(const std::string& name, int64_t in, int64_t out, double gain) {
  torch::nn::Linear linear(in, out);
  orthogonal_init(linear->weight, linear->bias, gain);
  register_module(name, linear);
  return {linear->weight, linear->bias};
}

PolicyValue Mlp::forward(const at::Tensor& obs) {
  at::Tensor x = obs.flatten(1).to(at::kFloat);
  if (spec_.obs_dtype == DType::kU8) x = x * kPixelScale;
  for (const Layer& layer : layers_) x = at::linear(x, layer.weight, layer.bias).tanh();
  if (spec_.headless()) return {x, at::Tensor()};
  at::Tensor policy = at::linear(x, policy_.weight, policy_.bias);
  if (is_gaussian()) policy = at::cat({policy, log_std_.expand_as(policy)}, 1);
  return {policy, at::linear(x, value_.weight, value_.bias).squeeze(-1)};
}

}  // namespace parl
