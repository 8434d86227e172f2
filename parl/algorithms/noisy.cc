#include "parl/algorithms/noisy.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "parl/core/check.h"

namespace parl {

void fill_normal(CounterRng& rng, std::span<float> out) {
  for (size_t i = 0; i < out.size(); i += 2) {  // Box and Muller 1958
    const double radius = std::sqrt(-2 * std::log(1 - rng.uniform_double()));
    const double angle = 2 * std::numbers::pi * rng.uniform_double();
    out[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

// The network's own recording; the noise stays in the parameters until its gradients are there.
class NoisyRecording : public Recording {
 public:
  NoisyRecording(NoisyModel& model, std::unique_ptr<Recording> inner)
      : Recording(inner->output()), model_(model), inner_(std::move(inner)) {}
  ~NoisyRecording() override { model_.take_out(); }

  void backward(const at::Tensor& logits_gradient, const at::Tensor& value_gradient) override {
    std::vector<at::Tensor> before;
    for (NoisyModel::Tensor* t : model_.tensors()) {
      before.push_back(t->mu.grad().defined() ? t->mu.grad().clone() : at::Tensor());
    }
    inner_->backward(logits_gradient, value_gradient);
    torch::NoGradGuard no_grad;
    size_t i = 0;
    for (NoisyModel::Tensor* t : model_.tensors()) {
      const at::Tensor& earlier = before[i++];
      if (!t->mu.grad().defined()) continue;
      const at::Tensor mine = (earlier.defined() ? t->mu.grad() - earlier : t->mu.grad()) * t->noise;
      at::Tensor& grad = t->sigma.mutable_grad();
      if (grad.defined()) {
        grad.add_(mine);
      } else {
        grad = mine;
      }
    }
    model_.take_out();
  }

 private:
  NoisyModel& model_;
  std::unique_ptr<Recording> inner_;
};

NoisyModel::NoisyModel(std::shared_ptr<Model> network, const std::vector<std::string>& layers, double sigma)
    : network_(std::move(network)) {
  PARL_CHECK(network_ != nullptr, "a NoisyModel needs a network");
  PARL_CHECK(!layers.empty(), "a NoisyModel needs the name of at least one layer");
  // The network's parts under their own names: its weights are called as without noise.
  for (const auto& item : network_->named_parameters(false)) register_parameter(item.key(), item.value());
  for (const auto& item : network_->named_buffers(false)) register_buffer(item.key(), item.value());
  for (const auto& item : network_->named_children()) register_module(item.key(), item.value());
  const auto sigmas = register_module("sigma", std::make_shared<torch::nn::Module>("sigma"));
  const auto parameters = network_->named_parameters();
  std::vector<std::string> there;
  for (const auto& item : parameters) {
    const std::string& name = item.key();
    if (name.ends_with(".weight") && item.value().dim() >= 2) there.push_back(name.substr(0, name.size() - 7));
  }
  for (const std::string& name : layers) {
    PARL_CHECK(std::find(there.begin(), there.end(), name) != there.end(),
               "--noisy-layers: the network has no layer '{}' with a weight{}; it has: {}", name,
               did_you_mean(name, there), fmt::join(there, ", "));
    std::string plain = name;
    std::replace(plain.begin(), plain.end(), '.', '_');
    auto holder = sigmas->register_module(plain, std::make_shared<torch::nn::Module>(plain));
    Layer layer;
    const at::Tensor weight = parameters[name + ".weight"];
    layer.outputs = weight.size(0), layer.inputs = weight.numel() / weight.size(0);
    const double value = sigma / std::sqrt(static_cast<double>(layer.inputs));
    layer.weight = add_sigma(*holder, "weight", weight, value);
    if (const at::Tensor* bias = parameters.find(name + ".bias")) layer.bias = add_sigma(*holder, "bias", *bias, value);
    noise_size_ += layer.inputs + layer.outputs;
    layers_.push_back(std::move(layer));
  }
}

NoisyModel::Tensor NoisyModel::add_sigma(torch::nn::Module& holder, const std::string& name, const at::Tensor& mu,
                                         double value) {
  torch::NoGradGuard no_grad;
  Tensor out;
  out.mu = mu;
  const at::Tensor start = torch::empty_like(mu.detach()).fill_(value);  // in the weight's memory order
  out.sigma = holder.register_parameter(name, start);
  return out;
}

std::vector<NoisyModel::Tensor*> NoisyModel::tensors() {
  std::vector<Tensor*> out;
  for (Layer& layer : layers_) {
    out.push_back(&layer.weight);
    if (layer.bias.mu.defined()) out.push_back(&layer.bias);
  }
  return out;
}

void NoisyModel::set_noise(std::span<const float> normal) {
  torch::NoGradGuard no_grad;
  PARL_CHECK_EQ(static_cast<int64_t>(normal.size()), noise_size_, "a noise of another size was expected");
  const at::Tensor all = torch::from_blob(const_cast<float*>(normal.data()), {noise_size_}, at::kFloat);
  const at::Tensor f = all.sign() * all.abs().sqrt();
  int64_t at = 0;
  for (Layer& layer : layers_) {
    const at::Device device = layer.weight.mu.device();
    const at::Tensor in = f.narrow(0, at, layer.inputs).to(device);
    const at::Tensor out = f.narrow(0, at + layer.inputs, layer.outputs).to(device);
    at += layer.inputs + layer.outputs;
    layer.weight.noise = at::outer(out, in).view(layer.weight.mu.sizes());
    if (layer.bias.mu.defined()) layer.bias.noise = out;
  }
  noisy_ = true;
}

void NoisyModel::put_in() {
  torch::NoGradGuard no_grad;
  PARL_CHECK(!is_in_, "a recording with noise still waits for its backward()");
  for (Tensor* t : tensors()) {
    if (!t->kept.defined() || t->kept.device() != t->mu.device()) t->kept = torch::empty_like(t->mu.detach());
    t->kept.copy_(t->mu);
    t->mu.addcmul_(t->sigma, t->noise);
  }
  is_in_ = true;
}

void NoisyModel::take_out() noexcept {
  if (!is_in_) return;
  torch::NoGradGuard no_grad;
  for (Tensor* t : tensors()) t->mu.copy_(t->kept);
  is_in_ = false;
}

PolicyValue NoisyModel::forward(const at::Tensor& obs) {
  if (!noisy_) return network_->forward(obs);
  torch::NoGradGuard no_grad;  // what autograd would keep of the parameters is gone when the pass ends
  put_in();
  try {
    PolicyValue out = network_->forward(obs);
    take_out();
    return out;
  } catch (...) {
    take_out();
    throw;
  }
}

std::unique_ptr<Recording> NoisyModel::record(const at::Tensor& obs) {
  if (!noisy_) return network_->record(obs);
  put_in();
  try {
    return std::make_unique<NoisyRecording>(*this, network_->record(obs));
  } catch (...) {
    take_out();
    throw;
  }
}

}  // namespace parl
