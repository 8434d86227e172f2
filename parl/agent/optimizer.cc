#include "parl/agent/optimizer.h"

#include <torch/torch.h>

#include <cmath>

#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"

namespace parl {
namespace {

std::vector<int64_t> dense_strides(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor.strides().vec() : tensor.contiguous().strides().vec();
}

// n is a multiple of kAlign. Floats within a block of 1,024, doubles over the blocks.
double sum_of_squares(const float* g, int64_t n) {
  constexpr int64_t kBlock = FlatParameters::kAlign;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += 64 * kBlock) {
    float lanes[kBlock] = {};
    const int64_t end = std::min(n, begin + 64 * kBlock);
    for (int64_t i = begin; i < end; i += kBlock) {
      for (int64_t k = 0; k < kBlock; ++k) lanes[k] += g[i + k] * g[i + k];
    }
    for (float lane : lanes) total += lane;
  }
  return total;
}

// Square roots that set no errno become vector instructions.
#pragma GCC push_options
#pragma GCC optimize("no-math-errno")

struct RmspropRule {
  float lr, scale, alpha, eps;
  void operator()(float& p, float g, float&, float& v) const {
    g *= scale;
    v = alpha * v + (1 - alpha) * g * g;
    p -= lr * g / (__builtin_sqrtf(v) + eps);
  }
};

struct AdamRule {
  float step_size, scale, beta1, beta2, eps, inverse_sqrt_correction;
  void operator()(float& p, float g, float& m, float& v) const {
    g *= scale;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    p -= step_size * m / (__builtin_sqrtf(v) * inverse_sqrt_correction + eps);
  }
};

template <typename Rule>
void apply(const Rule& rule, float* __restrict p, const float* __restrict g, float* __restrict m, float* __restrict v,
           int64_t n, bool has_m) {
  if (has_m) {
    for (int64_t i = 0; i < n; ++i) rule(p[i], g[i], m[i], v[i]);
  } else {
    float none = 0;
    for (int64_t i = 0; i < n; ++i) rule(p[i], g[i], none, v[i]);
  }
}

#pragma GCC pop_options

}  // namespace

FlatParameters::FlatParameters(torch::nn::Module& model) {
  torch::NoGradGuard no_grad;
  int64_t size = 0;
  at::Device device(at::kCPU);
  for (const auto& item : model.named_parameters()) {
    const at::Tensor& parameter = item.value();
    PARL_CHECK(parameter.scalar_type() == at::kFloat, "parameter '{}' is {}; parameters must be float32", item.key(),
               at::toString(parameter.scalar_type()));
    device = parameter.device();
    entries_.push_back({item.key(), parameter, {}, size});
    size += (parameter.numel() + kAlign - 1) / kAlign * kAlign;
  }
  PARL_CHECK(size > 0, "the model has no parameters; register its modules with register_module");
  values_ = torch::zeros({size}, device);
  for (Entry& entry : entries_) {
    at::Tensor view = values_.as_strided(entry.parameter.sizes(), dense_strides(entry.parameter), entry.offset);
    view.copy_(entry.parameter);
    entry.parameter.set_data(view);
  }
  bind();
}

FlatParameters::FlatParameters(torch::nn::Module& model, const FlatParameters& source)
    : values_(source.values_), entries_(source.entries_) {
  torch::NoGradGuard no_grad;
  auto named = model.named_parameters();
  PARL_CHECK_EQ(named.size(), entries_.size(), "a replica has another number of parameters than its original");
  for (size_t i = 0; i < entries_.size(); ++i) {
    at::Tensor mine = named[i].value();
    PARL_CHECK(named[i].key() == entries_[i].name && mine.sizes() == entries_[i].parameter.sizes(),
               "a replica's parameter '{}' differs from the original's '{}'", named[i].key(), entries_[i].name);
    mine.set_data(view(values_, i));
    entries_[i].parameter = mine;
  }
  bind();
}

void FlatParameters::bind() {
  gradients_ = torch::zeros_like(values_);
  for (size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].gradient = view(gradients_, i);
    entries_[i].parameter.mutable_grad() = entries_[i].gradient;
  }
}

at::Tensor FlatParameters::view(const at::Tensor& flat, size_t i) const {
  const Entry& entry = entries_[i];
  return flat.as_strided(entry.parameter.sizes(), entry.parameter.strides(), entry.offset);
}

double FlatParameters::gradient_norm() const {
  if (!gradients_.is_cpu()) return gradients_.to(at::kDouble).norm().item<double>();
  return std::sqrt(sum_of_squares(gradients_.const_data_ptr<float>(), size()));
}

double FlatParameters::reduce_gradients(const std::vector<FlatParameters*>& others, int64_t begin, int64_t end) {
  torch::NoGradGuard no_grad;
  at::Tensor part = gradients_.narrow(0, begin, end - begin);
  if (!part.is_cpu()) {
    for (FlatParameters* other : others) part.add_(other->gradients_.narrow(0, begin, end - begin));
    return part.to(at::kDouble).pow(2).sum().item<double>();
  }
  constexpr int64_t kPiece = 4096;  // stays in the first-level cache between the addition and the squares
  double total = 0;
  for (int64_t at = begin; at < end; at += kPiece) {
    const int64_t n = std::min(kPiece, end - at);
    float* __restrict sum = gradients_.mutable_data_ptr<float>() + at;
    for (FlatParameters* other : others) {
      const float* __restrict g = other->gradients_.const_data_ptr<float>() + at;
      for (int64_t i = 0; i < n; ++i) sum[i] += g[i];
    }
    total += sum_of_squares(sum, n);
  }
  return total;
}

std::string FlatParameters::find_nonfinite(bool gradients) const {
  for (const Entry& entry : entries_) {
    if (!at::isfinite(gradients ? entry.gradient : entry.parameter.detach()).all().item<bool>()) return entry.name;
  }
  return {};
}

void FlatParameters::bump_versions() {
  for (Entry& entry : entries_) entry.parameter.unsafeGetTensorImpl()->bump_version();
}

FlatOptimizer::FlatOptimizer(FlatParameters& parameters, OptimizerConfig config)
    : parameters_(parameters), config_(std::move(config)), adam_(config_.kind == "adam" || config_.kind == "radam") {
  PARL_CHECK(adam_ || config_.kind == "rmsprop", "optimizer '{}' is unknown{}; there are rmsprop, adam and radam",
             config_.kind, did_you_mean(config_.kind, {"rmsprop", "adam", "radam"}));
  v_ = torch::zeros_like(parameters_.values());
  if (adam_) m_ = torch::zeros_like(v_);
}

void FlatOptimizer::step(double learning_rate, double gradient_scale) {
  step_part(learning_rate, gradient_scale, 0, parameters_.size());
  finish_step();
}

FlatOptimizer::AdamStep FlatOptimizer::adam_step(double learning_rate) const {
  const double t = static_cast<double>(steps_ + 1), b2 = config_.beta2;
  const double correction1 = 1 - std::pow(config_.beta1, t), correction2 = 1 - std::pow(b2, t);
  if (config_.kind == "adam") return {learning_rate / correction1, 1 / std::sqrt(correction2), config_.eps};
  const double longest = 2 / (1 - b2) - 1, length = longest - 2 * t * std::pow(b2, t) / correction2;
  if (length <= 5) return {learning_rate / correction1, 0, 1};
  const double rectification =
      std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length));
  return {learning_rate / correction1 * rectification * std::sqrt(correction2), 1, config_.eps};
}

void FlatOptimizer::step_part(double learning_rate, double gradient_scale, int64_t begin, int64_t end) {
  torch::NoGradGuard no_grad;
  const int64_t n = end - begin;
  at::Tensor p = parameters_.values().narrow(0, begin, n), g = parameters_.gradients().narrow(0, begin, n);
  at::Tensor v = v_.narrow(0, begin, n), m = adam_ ? m_.narrow(0, begin, n) : at::Tensor();
  const AdamStep adam = adam_ ? adam_step(learning_rate) : AdamStep{learning_rate, 1, config_.eps};
  if (!p.is_cpu()) {
    at::Tensor scaled = g * gradient_scale;
    v.mul_(adam_ ? config_.beta2 : config_.alpha).addcmul_(scaled, scaled, 1 - (adam_ ? config_.beta2 : config_.alpha));
    if (adam_) m.mul_(config_.beta1).add_(scaled, 1 - config_.beta1);
    at::Tensor denominator = v.sqrt().mul_(adam.root).add_(adam.eps);
    p.addcdiv_(adam_ ? m : scaled, denominator, -adam.size);
    return;
  }
  float* pp = p.mutable_data_ptr<float>();
  const float* pg = g.const_data_ptr<float>();
  float* pv = v.mutable_data_ptr<float>();
  const float scale = static_cast<float>(gradient_scale), eps = static_cast<float>(config_.eps);
  if (adam_) {
    const AdamRule rule{static_cast<float>(adam.size),     scale,
                        static_cast<float>(config_.beta1), static_cast<float>(config_.beta2),
                        static_cast<float>(adam.eps),      static_cast<float>(adam.root)};
    apply(rule, pp, pg, m.mutable_data_ptr<float>(), pv, n, true);
  } else {
    const RmspropRule rule{static_cast<float>(learning_rate), scale, static_cast<float>(config_.alpha), eps};
    apply(rule, pp, pg, nullptr, pv, n, false);
  }
}

void FlatOptimizer::finish_step() {
  ++steps_;
  parameters_.bump_versions();
}

void FlatOptimizer::append_state(Weights& state) const {
  state.entries.push_back({"optimizer/steps", Array::from<int64_t>({steps_})});
  for (size_t i = 0; i < parameters_.entries().size(); ++i) {
    const std::string& name = parameters_.entries()[i].name;
    state.entries.push_back({"optimizer/v/" + name, to_array(parameters_.view(v_, i))});
    if (adam_) state.entries.push_back({"optimizer/m/" + name, to_array(parameters_.view(m_, i))});
  }
}

void FlatOptimizer::set_state(const Weights& state) {
  torch::NoGradGuard no_grad;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (size_t i = 0; i < parameters_.entries().size(); ++i) {
    for (const char* moment : {"v", "m"}) {
      if (moment[0] == 'm' && !adam_) continue;
      const std::string name = std::string("optimizer/") + moment + "/" + parameters_.entries()[i].name;
      at::Tensor source = to_tensor(get_entry(state, name));
      at::Tensor target = parameters_.view(moment[0] == 'v' ? v_ : m_, i);
      PARL_CHECK(source.sizes() == target.sizes(), "'{}' has another shape than the model's parameter", name);
      copies.emplace_back(target, source);
    }
  }
  const Array& steps = get_entry(state, "optimizer/steps");
  for (auto& [target, source] : copies) target.copy_(source);
  steps_ = steps.data<int64_t>()[0];
}

}  // namespace parl
