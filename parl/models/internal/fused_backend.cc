#include "parl/models/internal/fused_backend.h"

#include <torch/torch.h>

#include "parl/core/check.h"

namespace parl::internal {

std::vector<at::Tensor> NetworkTensors::all() const {
  std::vector<at::Tensor> out = weights;
  out.insert(out.end(), biases.begin(), biases.end());
  if (policy_weight.defined()) out.insert(out.end(), {policy_weight, policy_bias, value_weight, value_bias});
  return out;
}

FusedBackend::~FusedBackend() = default;

#ifndef PARL_HAS_CONV_KERNELS

std::shared_ptr<FusedBackend> FusedBackend::make(const ModelSpec&, const std::vector<ConvLayer>&, NetworkTensors) {
  return nullptr;
}
PolicyValue FusedBackend::forward(const at::Tensor&) { raise("this build has no hand-written network passes"); }
std::unique_ptr<Recording> FusedBackend::record(const std::shared_ptr<FusedBackend>&, const at::Tensor&) {
  raise("this build has no hand-written network passes");
}

#else

namespace {

// Memory order [out][kh][kw][in]; the tensor itself when it has that order already.
at::Tensor channels_last(const at::Tensor& weight) { return weight.detach().permute({0, 2, 3, 1}).contiguous(); }

const float* data(const at::Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr; }
at::Tensor as_packed(const at::Tensor& tensor) { return tensor.defined() ? tensor.detach().contiguous() : tensor; }

// A parameter's gradient as FusedCnn writes it: the .grad itself where its memory order fits, else a piece to be added.
class GradientTarget {
 public:
  explicit GradientTarget(const at::Tensor& parameter) : parameter_(parameter) {
    at::Tensor& grad = parameter_.mutable_grad();
    if (!grad.defined()) grad = torch::zeros_like(parameter_.detach());
    at::Tensor ordered = order(grad);
    direct_ = ordered.is_contiguous();
    target_ = direct_ ? ordered : torch::zeros(ordered.sizes());
  }
  float* get() { return target_.mutable_data_ptr<float>(); }
  void finish() {
    if (!direct_) order(parameter_.mutable_grad()).add_(target_);
  }

 private:
  static at::Tensor order(const at::Tensor& t) { return t.dim() == 4 ? t.permute({0, 2, 3, 1}) : t; }
  at::Tensor parameter_, target_;
  bool direct_ = false;
};

}  // namespace

class FusedRecording : public Recording {
 public:
  FusedRecording(std::shared_ptr<FusedBackend> backend, at::Tensor obs, PolicyValue output,
                 std::unique_ptr<FusedCnn::Activations> kept)
      : Recording(std::move(output)),
        backend_(std::move(backend)),
        obs_(std::move(obs)),
        kept_(std::move(kept)),
        key_(backend_->key_) {}
  ~FusedRecording() override { backend_->free_.push_back(std::move(kept_)); }

  void backward(const at::Tensor& logits_gradient, const at::Tensor& value_gradient) override {
    torch::NoGradGuard no_grad;
    PARL_CHECK(key_ == backend_->current_key() && key_ == backend_->key_,
               "the weights changed between record() and backward()");
    const bool heads = output().value.defined();
    PARL_CHECK(logits_gradient.sizes() == output().logits.sizes() &&
                   (!heads || value_gradient.sizes() == output().value.sizes()),
               "the gradients must have the shapes of the outputs");
    const at::Tensor d_logits = logits_gradient.to(at::kFloat).contiguous(),
                     d_value = heads ? value_gradient.to(at::kFloat).contiguous() : at::Tensor();
    std::vector<GradientTarget> targets;
    for (const at::Tensor& tensor : backend_->tensors_.all()) targets.emplace_back(tensor);
    FusedCnn::Gradients gradients{};
    const size_t layers = backend_->tensors_.weights.size();
    for (size_t i = 0; i < layers; ++i) {
      gradients.weight.push_back(targets[i].get());
      gradients.bias.push_back(targets[layers + i].get());
    }
    if (heads) {
      gradients.policy_weight = targets[2 * layers].get();
      gradients.policy_bias = targets[2 * layers + 1].get();
      gradients.value_weight = targets[2 * layers + 2].get();
      gradients.value_bias = targets[2 * layers + 3].get();
    }
    backend_->net_.backward(obs_.const_data_ptr(), static_cast<int>(obs_.size(0)), *kept_, data(d_logits),
                            data(d_value), backend_->pointers(), gradients);
    for (GradientTarget& target : targets) target.finish();
  }

 private:
  std::shared_ptr<FusedBackend> backend_;
  at::Tensor obs_;
  std::unique_ptr<FusedCnn::Activations> kept_;
  std::vector<FusedBackend::Key> key_;
};

std::shared_ptr<FusedBackend> FusedBackend::make(const ModelSpec& spec, const std::vector<ConvLayer>& layers,
                                                 NetworkTensors tensors) {
  FusedCnn::Shape shape{static_cast<int>(spec.obs_shape[0]),
                        static_cast<int>(spec.obs_shape[1]),
                        static_cast<int>(spec.obs_shape[2]),
                        spec.obs_dtype == DType::kU8,
                        {},
                        static_cast<int>(spec.num_actions)};
  for (size_t i = 0; i < layers.size(); ++i) {
    const at::Tensor& weight = tensors.weights[i];
    shape.layers.push_back({static_cast<int>(weight.size(2)), static_cast<int>(weight.size(3)),
                            static_cast<int>(layers[i].stride), static_cast<int>(layers[i].padding),
                            static_cast<int>(layers[i].out)});
  }
  if (!FusedCnn::supports(shape)) return nullptr;
  return std::shared_ptr<FusedBackend>(new FusedBackend(shape, spec.obs_shape, std::move(tensors)));
}

FusedBackend::FusedBackend(const FusedCnn::Shape& shape, std::vector<int64_t> obs_shape, NetworkTensors tensors)
    : net_(shape), obs_shape_(std::move(obs_shape)), tensors_(std::move(tensors)) {}

std::vector<FusedBackend::Key> FusedBackend::current_key() const {
  std::vector<Key> key;
  for (const at::Tensor& tensor : tensors_.all()) {
    key.push_back({tensor.const_data_ptr(), tensor.unsafeGetTensorImpl()->version_counter().current_version()});
  }
  return key;
}

FusedCnn::Weights FusedBackend::pointers() const {
  FusedCnn::Weights out;
  for (const at::Tensor& weight : packed_.weights) out.weight.push_back(data(weight));
  for (const at::Tensor& bias : packed_.biases) out.bias.push_back(data(bias));
  out.policy_weight = data(packed_.policy_weight), out.policy_bias = data(packed_.policy_bias);
  out.value_weight = data(packed_.value_weight), out.value_bias = data(packed_.value_bias);
  return out;
}

void FusedBackend::refresh() {
  std::vector<Key> key = current_key();
  if (key == key_) return;
  packed_ = {};
  for (const at::Tensor& weight : tensors_.weights) packed_.weights.push_back(channels_last(weight));
  for (const at::Tensor& bias : tensors_.biases) packed_.biases.push_back(bias.detach().contiguous());
  packed_.policy_weight = as_packed(tensors_.policy_weight);
  packed_.policy_bias = as_packed(tensors_.policy_bias);
  packed_.value_weight = as_packed(tensors_.value_weight);
  packed_.value_bias = as_packed(tensors_.value_bias);
  net_.pack(pointers());
  key_ = std::move(key);
}

at::Tensor FusedBackend::check_obs(const at::Tensor& obs) const {
  PARL_CHECK(obs.dim() == 4 && obs.sizes().slice(1) == at::IntArrayRef(obs_shape_),
             "observations must be [N, {}, {}, {}]", obs_shape_[0], obs_shape_[1], obs_shape_[2]);
  return obs.contiguous();
}

PolicyValue FusedBackend::run(const at::Tensor& obs, FusedCnn::Activations* keep) {
  refresh();
  torch::NoGradGuard no_grad;
  const bool heads = tensors_.policy_weight.defined();
  PolicyValue out;
  out.logits = torch::empty({obs.size(0), heads ? tensors_.policy_weight.size(0) : tensors_.weights.back().size(0)});
  if (heads) out.value = torch::empty({obs.size(0)});
  net_.forward(obs.const_data_ptr(), static_cast<int>(obs.size(0)), out.logits.mutable_data_ptr<float>(),
               heads ? out.value.mutable_data_ptr<float>() : nullptr, keep);
  return out;
}

PolicyValue FusedBackend::forward(const at::Tensor& obs) { return run(check_obs(obs), nullptr); }

std::unique_ptr<Recording> FusedBackend::record(const std::shared_ptr<FusedBackend>& self, const at::Tensor& obs) {
  if (free_.empty()) free_.push_back(std::make_unique<FusedCnn::Activations>());
  std::unique_ptr<FusedCnn::Activations> kept = std::move(free_.back());
  free_.pop_back();
  const at::Tensor rows = check_obs(obs);
  PolicyValue output = run(rows, kept.get());
  return std::make_unique<FusedRecording>(self, rows, std::move(output), std::move(kept));
}

#endif

}  // namespace parl::internal
