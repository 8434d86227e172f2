#include "parl/models/dict_net.h"

#include <torch/torch.h>

#include <numeric>
#include <set>

#include "parl/agent/init.h"
#include "parl/agent/obs_parts.h"
#include "parl/core/check.h"

namespace parl {
namespace {

constexpr int64_t kImageFeatures = 128, kPartFeatures = 64, kCriticJoint = 256;

// All but the last layer, which would be a convolution over the whole rest: a linear layer here.
std::vector<ConvLayer> convolutions_for(const ObsPart& part) {
  const bool is_image =
      part.shape.size() == 3 && part.choices.empty() && (part.dtype == DType::kU8 || part.dtype == DType::kF32);
  const int64_t side = is_image ? std::min(part.shape[0], part.shape[1]) : 0;
  if (side < 3) return {};
  std::vector<ConvLayer> layers = side >= 36   ? nature_layers()
                                  : side >= 20 ? impala_shallow_layers()
                                               : minatar_layers();
  layers.pop_back();
  return layers;
}

// Names of modules have no dots, and each is there once.
std::string module_name(const std::string& part, std::set<std::string>& taken) {
  std::string name;
  for (const char c : part) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  while (!taken.insert(name).second) name += '_';
  return name;
}

PartLayers::Layer add_linear(torch::nn::Module& owner, const std::string& name, int64_t in, int64_t out, double gain) {
  torch::nn::Linear linear(in, out);
  orthogonal_init(linear->weight, linear->bias, gain);
  owner.register_module(name, linear);
  return {linear->weight, linear->bias};
}

PartLayers::Layer add_convolution(torch::nn::Module& owner, const std::string& name, const ConvLayer& shape,
                                  int64_t channels, bool of_pixels) {
  at::Tensor weight = torch::empty({shape.out, channels, shape.kernel, shape.kernel});
  weight = weight.contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor bias = torch::empty({shape.out});
  if (of_pixels) {
    pixel_init(weight, bias, kPixelGain);
  } else {
    orthogonal_init(weight, bias, kReluGain);
  }
  auto module = owner.register_module(name, std::make_shared<torch::nn::Module>(name));
  return {module->register_parameter("weight", weight), module->register_parameter("bias", bias)};
}

at::Tensor linear(const at::Tensor& x, const PartLayers::Layer& layer) {
  return at::linear(x, layer.weight, layer.bias);
}

}  // namespace

PartLayers::PartLayers(torch::nn::Module& owner, const ModelSpec& spec, std::set<std::string> taken) {
  PARL_CHECK(!spec.parts.empty(),
             "dict is for observations of parts (a Dict, a Tuple, numbers to choose by); this "
             "environment's is one array: use mlp, or a convolutional network for images");
  for (const ObsPart& part : spec.parts) {
    if (&part == spec.action_mask()) continue;
    inputs_.push_back(add_input(owner, part, module_name(part.name, taken)));
    features_ += inputs_.back().linear.weight.size(0);
  }
  PARL_CHECK(!inputs_.empty(), "the observation is nothing but a mask of actions");
}

PartLayers::Input PartLayers::add_input(torch::nn::Module& owner, const ObsPart& part, const std::string& name) {
  Input input{part, convolutions_for(part), {}, {}};
  if (input.shape.empty()) {
    const int64_t width =
        part.choices.empty() ? part.elements() : std::accumulate(part.choices.begin(), part.choices.end(), int64_t{0});
    PARL_CHECK(width > 0, "the part '{}' of the observation is empty", part.name);
    input.linear = add_linear(owner, name, width, kPartFeatures, kReluGain);
    return input;
  }
  int64_t height = part.shape[0], width = part.shape[1], channels = part.shape[2];
  const bool is_picture = part.dtype == DType::kU8 && std::min(height, width) >= 20;
  for (size_t i = 0; i < input.shape.size(); ++i) {
    const ConvLayer& layer = input.shape[i];
    input.convolutions.push_back(
        add_convolution(owner, name + "_conv" + std::to_string(i + 1), layer, channels, i == 0 && is_picture));
    height = (height + 2 * layer.padding - layer.kernel) / layer.stride + 1;
    width = (width + 2 * layer.padding - layer.kernel) / layer.stride + 1;
    channels = layer.out;
  }
  input.linear = add_linear(owner, name, height * width * channels, kImageFeatures, kReluGain);
  return input;
}

at::Tensor PartLayers::embed(const Input& input, const at::Tensor& obs) {
  if (input.shape.empty()) return linear(part_features(obs, input.part), input.linear).tanh();
  at::Tensor x = part_view(obs, input.part).permute({0, 3, 1, 2}).to(at::kFloat);
  if (input.part.scale != 1) x = x * input.part.scale;
  for (size_t i = 0; i < input.shape.size(); ++i) {
    const Layer& layer = input.convolutions[i];
    x = at::conv2d(x, layer.weight, layer.bias, input.shape[i].stride, input.shape[i].padding).relu();
  }
  return linear(x.flatten(1), input.linear).relu();
}

at::Tensor PartLayers::forward(const at::Tensor& obs) const {
  std::vector<at::Tensor> features;
  for (const Input& input : inputs_) features.push_back(embed(input, obs));
  return at::cat(features, 1);
}

DictNet::DictNet(const ModelSpec& spec) : spec_(spec), parts_(*this, spec, {"joint", "policy", "value", "log_std"}) {
  joint_ = add_linear(*this, "joint", parts_.features(), kFeatures, kReluGain);
  if (spec.headless()) return;
  policy_ = add_linear(*this, "policy", kFeatures, is_gaussian() ? spec.action_size : spec.num_actions, kPolicyGain);
  if (is_gaussian()) log_std_ = register_parameter("log_std", torch::zeros({spec.action_size}));
  value_ = add_linear(*this, "value", kFeatures, 1, 1.0);
}

PolicyValue DictNet::forward(const at::Tensor& obs) {
  const at::Tensor x = linear(parts_.forward(obs), joint_).tanh();
  if (spec_.headless()) return {x, at::Tensor()};
  at::Tensor policy = linear(x, policy_);
  if (is_gaussian()) policy = at::cat({policy, log_std_.expand_as(policy)}, 1);
  return {policy, linear(x, value_).squeeze(-1)};
}

DictCritic::DictCritic(const ModelSpec& spec) : parts_(*this, spec, {"joint1", "joint2", "head"}) {
  PARL_CHECK(spec.action_size > 0, "a critic of continuous control needs continuous actions");
  joint1_ = add_linear(*this, "joint1", parts_.features() + spec.action_size, kCriticJoint, kReluGain);
  joint2_ = add_linear(*this, "joint2", kCriticJoint, kCriticJoint, kReluGain);
  head_ = add_linear(*this, "head", kCriticJoint, 1, 1.0);
}

at::Tensor DictCritic::forward(const at::Tensor& obs, const at::Tensor& action) {
  const at::Tensor x = linear(at::cat({parts_.forward(obs), action}, 1), joint1_).relu();
  return linear(linear(x, joint2_).relu(), head_).squeeze(-1);
}

}  // namespace parl
