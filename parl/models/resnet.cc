#include "parl/models/resnet.h"

#include <torch/torch.h>

#include "parl/agent/init.h"
#include "parl/models/image_input.h"

namespace parl {

at::Tensor ImpalaDeep::Layer::conv(const at::Tensor& x) const { return at::conv2d(x, weight, bias, 1, 1); }

ImpalaDeep::ImpalaDeep(const ModelSpec& spec, std::vector<int64_t> channels, int64_t hidden) : spec_(spec) {
  check_image_spec(spec, "impala_deep");
  int64_t height = spec.obs_shape[0], width = spec.obs_shape[1], in = spec.obs_shape[2];
  for (size_t i = 0; i < channels.size(); ++i) {
    const std::string name = "section" + std::to_string(i + 1);
    Section section;
    section.entry = add_conv(name + "_conv", in, channels[i], i == 0 && spec.obs_dtype == DType::kU8);
    for (int r = 1; r <= 4; ++r) {
      section.residual.push_back(add_conv(name + "_residual" + std::to_string(r), channels[i], channels[i], false));
    }
    sections_.push_back(section);
    in = channels[i];
    height = (height + 1) / 2;
    width = (width + 1) / 2;
  }
  hidden_ = add_linear("hidden", in * height * width, hidden, kReluGain);
  if (spec.headless()) return;
  policy_ = add_linear("policy", hidden, spec.num_actions, kPolicyGain);
  value_ = add_linear("value", hidden, 1, 1.0);
}

ImpalaDeep::Layer ImpalaDeep::add_conv(const std::string& name, int64_t in, int64_t out, bool pixels) {
  at::Tensor weight = torch::empty({out, in, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor bias = torch::empty({out});
  if (pixels) {
    pixel_init(weight, bias, kReluGain);  // fifteen layers follow: a larger gain would grow with them
  } else {
    orthogonal_init(weight, bias, kReluGain);
  }
  auto module = register_module(name, std::make_shared<torch::nn::Module>(name));
  return {module->register_parameter("weight", weight), module->register_parameter("bias", bias)};
}

ImpalaDeep::Layer ImpalaDeep::add_linear(const std::string& name, int64_t in, int64_t out, double gain) {
  torch::nn::Linear linear(in, out);
  orthogonal_init(linear->weight, linear->bias, gain);
  register_module(name, linear);
  return {linear->weight, linear->bias};
}

PolicyValue ImpalaDeep::forward(const at::Tensor& obs) {
  at::Tensor x = image_to_float(obs, spec_);
  bool first = spec_.obs_dtype == DType::kU8;
  for (const Section& section : sections_) {
    x = first ? at::conv2d(x, section.entry.weight * kPixelScale, section.entry.bias, 1, 1) : section.entry.conv(x);
    first = false;
    x = at::max_pool2d(x, 3, 2, 1);
    for (size_t r = 0; r < section.residual.size(); r += 2) {
      x = x + section.residual[r + 1].conv(section.residual[r].conv(x.relu()).relu());
    }
  }
  x = at::linear(x.relu().contiguous().flatten(1), hidden_.weight, hidden_.bias).relu();
  if (spec_.headless()) return {x, at::Tensor()};
  return {at::linear(x, policy_.weight, policy_.bias), at::linear(x, value_.weight, value_.bias).squeeze(-1)};
}

}  // namespace parl
