#include "parl/algorithms/bc.h"

#include <torch/torch.h>

#include <cmath>
#include <numbers>

#include "parl/agent/categorical.h"
#include "parl/agent/masked_model.h"
#include "parl/agent/nonfinite.h"
#include "parl/agent/optimizer.h"
#include "parl/agent/policy_act.h"
#include "parl/agent/schedule.h"
#include "parl/core/check.h"

namespace parl {

void BcConfig::check() const {
  PARL_CHECK(lr >= 0 && eps > 0, "lr is {} and eps {}: lr must not be negative, eps must be positive", lr, eps);
  PARL_CHECK(max_grad_norm >= 0, "max-grad-norm is {}, expected 0 or more", max_grad_norm);
  PARL_CHECK(entropy_cost >= 0, "entropy-cost is {}, expected 0 or more", entropy_cost);
  PARL_CHECK(minibatches >= 1, "minibatches is {}, expected at least 1", minibatches);
  if (!lr_schedule.empty()) Schedule{lr_schedule};
}

struct Bc::Learner {
  explicit Learner(Model& model, const BcConfig& config)
      : parameters(model), optimizer(parameters, {.kind = "adam", .eps = config.eps}) {}
  FlatParameters parameters;
  FlatOptimizer optimizer;
};

struct Bc::Sums {
  double steps = 0, updates = 0, log_prob = 0, entropy = 0, hits = 0, grad_norm = 0;
};

Bc::Bc(std::shared_ptr<Model> model, BcConfig config, bool learns, const std::string& device)
    : model_(std::move(model)), config_(std::move(config)), device_(device) {
  PARL_CHECK(model_ != nullptr, "an algorithm needs a model");
  config_.check();
  model_->to(at::Device(device_));
  model_->eval();
  if (learns) learner_ = std::make_unique<Learner>(*model_, config_);
}

Bc::~Bc() = default;

Bc::Learner& Bc::learner() const {
  PARL_CHECK(learner_ != nullptr, "this object acts only: make it with learns = true to learn");
  return *learner_;
}

ActOutput Bc::sample(const at::Tensor& obs, const at::Tensor& uniforms) {
  return policy_act(*model_, {obs, uniforms}, at::Device(device_));
}

ActOutput Bc::predict(const at::Tensor& obs) { return policy_act(*model_, {obs}, at::Device(device_)); }

namespace {

struct PolicyTerms {
  at::Tensor log_prob, entropy, hit;  // [N] each
};

PolicyTerms categorical_terms(const at::Tensor& logits, const at::Tensor& action) {
  const at::Tensor log_probs = torch::log_softmax(logits, 1);
  return {log_probs.gather(1, action.unsqueeze(1)).squeeze(1), -(log_probs.exp() * log_probs).sum(1),
          log_probs.argmax(1).eq(action).to(at::kFloat)};
}

PolicyTerms gaussian_terms(const at::Tensor& parameters, const at::Tensor& action) {
  const double half_log_2pi = 0.5 * std::log(2 * std::numbers::pi);
  const auto halves = parameters.chunk(2, 1);
  const at::Tensor z = (action - halves[0]) * torch::exp(-halves[1]);
  return {(-0.5 * z * z - halves[1] - half_log_2pi).sum(1), (halves[1] + half_log_2pi + 0.5).sum(1),
          (action - halves[0]).detach().abs().mean(1)};
}

}  // namespace

void Bc::update(const Batch& part, double lr, Sums& sums) {
  FlatParameters& parameters = learner().parameters;
  const at::Device device(device_);
  const int64_t n = part.steps();
  const at::Tensor obs = part.obs.narrow(1, 0, part.length()).flatten(0, 1).to(device);
  const at::Tensor action = part.action.flatten(0, 1).to(device);
  const bool masked = dynamic_cast<const MaskedModel*>(model_.get()) != nullptr;
  parameters.zero_gradients();
  const int64_t rows = model_->preferred_rows() > 0 ? model_->preferred_rows() : n;
  for (int64_t from = 0; from < n; from += rows) {
    const int64_t count = std::min(rows, n - from);
    const auto recording = model_->record(obs.narrow(0, from, count));
    const at::Tensor logits = recording->output().logits.detach().requires_grad_(true);
    const at::Tensor chosen = action.narrow(0, from, count);
    PARL_CHECK(
        !masked || logits.gather(1, chosen.unsqueeze(1)).min().item<float>() > kIllegalLogit / 2,
        "a recorded action is one that the observation's mask of legal actions forbids: there is no learning it");
    at::Tensor value_gradient;
    {
      const torch::AutoGradMode grad(true);
      const PolicyTerms terms =
          model_->is_gaussian() ? gaussian_terms(logits, chosen) : categorical_terms(logits, chosen);
      (-(terms.log_prob.sum() + config_.entropy_cost * terms.entropy.sum()) / static_cast<double>(n)).backward();
      sums.log_prob += terms.log_prob.detach().sum().item<double>();
      sums.entropy += terms.entropy.detach().sum().item<double>();
      sums.hits += terms.hit.sum().item<double>();
    }
    recording->backward(logits.grad(), torch::zeros_like(recording->output().value));
  }
  sums.steps += static_cast<double>(n);
  const double norm = parameters.gradient_norm();
  if (!std::isfinite(norm)) {
    const std::string name = parameters.find_nonfinite(true);
    throw NonFiniteError("gradient of " + name, fmt::format("the gradient of '{}' is NaN or infinite", name));
  }
  const double scale = config_.max_grad_norm > 0 && norm > config_.max_grad_norm ? config_.max_grad_norm / norm : 1;
  learner().optimizer.step(lr, scale);
  parameters.bump_versions();
  sums.grad_norm += norm;
  sums.updates += 1;
}

LearnStats Bc::learn(const Batch& batch, int64_t agent_steps) {
  const torch::NoGradGuard no_grad;
  batch.check();
  const double lr = config_.lr_schedule.empty() ? config_.lr : Schedule(config_.lr_schedule).at(agent_steps);
  Sums sums;
  const int64_t unrolls = batch.unrolls(), parts = std::min(config_.minibatches, unrolls);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t first = unrolls * i / parts, end = unrolls * (i + 1) / parts;
    update(batch.slice(first, end - first), lr, sums);
  }
  const double log_prob = sums.log_prob / sums.steps, entropy = sums.entropy / sums.steps;
  return {{"loss", -log_prob - config_.entropy_cost * entropy},
          {"log_prob", log_prob},
          {model_->is_gaussian() ? "distance" : "accuracy", sums.hits / sums.steps},
          {"entropy", entropy},
          {"grad_norm", sums.grad_norm / sums.updates},
          {"lr", lr}};
}

Weights Bc::get_state() const {
  Weights state;
  learner().optimizer.append_state(state);
  return state;
}

void Bc::set_state(const Weights& state) { learner().optimizer.set_state(state); }

}  // namespace parl
