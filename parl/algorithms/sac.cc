#include "parl/algorithms/sac.h"

#include <torch/torch.h>

#include <cmath>

#include "parl/agent/nonfinite.h"
#include "parl/agent/tanh_gaussian.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"

namespace parl {

void SacConfig::check() const {
  OffPolicyConfig::check();
  PARL_CHECK(alpha > 0, "alpha is {}, expected above 0", alpha);
  PARL_CHECK(alpha_lr >= 0, "alpha-lr is {}, expected 0 or more", alpha_lr);
}

Sac::Sac(std::shared_ptr<Model> policy, const SacConfig& config, OffPolicyNetworks networks, const std::string& device)
    : OffPolicy(std::move(policy), std::move(networks), config, device),
      config_(config),
      log_alpha_(std::log(config.alpha)) {
  config_.check();
  PARL_CHECK(this->networks().critics.empty() || this->networks().critics.size() == kCritics,
             "sac learns with two critics, not {}", this->networks().critics.size());
}

double Sac::alpha() const { return std::exp(log_alpha_); }

at::Tensor Sac::explore(const at::Tensor& parameters, const at::Tensor& uniforms) const {
  return sample_tanh_gaussian(parameters, uniforms);
}

at::Tensor Sac::next_value(const at::Tensor& next_obs, const at::Tensor& noise) {
  const TanhGaussianDraw next = draw_tanh_gaussian(model().forward(next_obs).logits, noise[0]);
  return target_q(next_obs, next.action).sub_(next.log_prob, alpha());
}

void Sac::update_policy(const at::Tensor& obs, const at::Tensor& noise, LearnStats& stats) {
  const std::unique_ptr<Recording> recording = model().record(obs);
  const TanhGaussianDraw draw = draw_tanh_gaussian(recording->output().logits.detach(), noise[1]);
  const auto first = networks().critics[0]->record(obs, draw.action);
  const auto second = networks().critics[1]->record(obs, draw.action);
  const at::Tensor q1 = first->output().detach(), q2 = second->output().detach(), lower = q1.le(q2);
  const double n = static_cast<double>(obs.size(0)), log_prob = draw.log_prob.mean().item<double>();
  const double loss = alpha() * log_prob - at::minimum(q1, q2).mean().item<double>();
  // d loss / d Q: -1 / n for the lower of the two.
  const at::Tensor d_first = lower.to(at::kFloat).mul_(-1 / n), d_second = d_first.neg().sub_(1 / n);
  const at::Tensor d_action = first->action_gradient(d_first).add_(second->action_gradient(d_second));
  step_policy(*recording, tanh_gaussian_gradient(draw, d_action, alpha() / n), loss);
  stats.insert(stats.end(), {{"actor_loss", loss}, {"entropy", -log_prob}, {"alpha", alpha()}});
  if (!config_.auto_alpha) return;
  update_alpha(-log_prob, config_.target_entropy.value_or(-static_cast<double>(draw.action.size(1))));
}

// Adam with the gradient of -log_alpha (log pi + target): entropy - target.
void Sac::update_alpha(double entropy, double target) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8;
  const double gradient = entropy - target;
  ++alpha_steps_;
  m_ = kBeta1 * m_ + (1 - kBeta1) * gradient;
  v_ = kBeta2 * v_ + (1 - kBeta2) * gradient * gradient;
  const auto t = static_cast<double>(alpha_steps_);
  const double mean = m_ / (1 - std::pow(kBeta1, t)), square = v_ / (1 - std::pow(kBeta2, t));
  log_alpha_ -= (config_.alpha_lr > 0 ? config_.alpha_lr : config_.lr) * mean / (std::sqrt(square) + kEps);
}

void Sac::append_own_state(Weights& state) const {
  state.entries.push_back(
      {"sac/temperature", Array::from<double>({log_alpha_, m_, v_, static_cast<double>(alpha_steps_)})});
}

void Sac::set_own_state(const Weights& state) {
  const auto values = get_entry(state, "sac/temperature").data<double>();
  log_alpha_ = values[0], m_ = values[1], v_ = values[2], alpha_steps_ = static_cast<int64_t>(values[3]);
}

}  // namespace parl
