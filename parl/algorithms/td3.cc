#include "parl/algorithms/td3.h"

#include <torch/torch.h>

#include "parl/agent/tanh_gaussian.h"
#include "parl/core/check.h"

namespace parl {

void Td3Config::check() const {
  OffPolicyConfig::check();
  PARL_CHECK(exploration_noise >= 0, "exploration-noise is {}, expected 0 or more", exploration_noise);
  PARL_CHECK(target_noise >= 0 && target_noise_clip >= 0,
             "target-noise is {} and target-noise-clip {}: neither may be negative", target_noise, target_noise_clip);
  PARL_CHECK(policy_delay >= 1, "policy-delay is {}, expected at least 1", policy_delay);
}

Td3::Td3(std::shared_ptr<Model> policy, const Td3Config& config, OffPolicyNetworks networks, const std::string& device)
    : OffPolicy(std::move(policy), std::move(networks), config, device), config_(config) {
  config_.check();
}

at::Tensor Td3::explore(const at::Tensor& parameters, const at::Tensor& uniforms) const {
  at::Tensor action = tanh_mean(parameters);
  if (evaluating() || config_.exploration_noise == 0) return action;
  return action.add_(normal_from_uniform(uniforms), config_.exploration_noise).clamp_(-1, 1);
}

at::Tensor Td3::next_value(const at::Tensor& next_obs, const at::Tensor& noise) {
  at::Tensor action = tanh_mean(networks().target_policy->forward(next_obs).logits);
  if (config_.target_noise > 0) {
    const double bound = config_.target_noise_clip;
    action.add_((noise[0] * config_.target_noise).clamp_(-bound, bound)).clamp_(-1, 1);
  }
  return target_q(next_obs, action);
}

void Td3::update_policy(const at::Tensor& obs, const at::Tensor& /*noise*/, LearnStats& stats) {
  const std::unique_ptr<Recording> recording = model().record(obs);
  const at::Tensor parameters = recording->output().logits.detach(), action = tanh_mean(parameters);
  const auto critic = networks().critics[0]->record(obs, action);
  const at::Tensor q = critic->output().detach();
  const double loss = -q.mean().item<double>();
  const at::Tensor d_action = critic->action_gradient(torch::full_like(q, -1.0 / static_cast<double>(q.numel())));
  at::Tensor gradient = torch::zeros_like(parameters);
  at::Tensor means = gradient.narrow(1, 0, action.size(1));
  at::addcmul_out(means, d_action, d_action * action, action, -1);  // through the tanh
  step_policy(*recording, gradient, loss);
  stats.emplace_back("actor_loss", loss);
}

}  // namespace parl
