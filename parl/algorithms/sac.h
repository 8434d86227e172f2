// Sac: soft actor-critic with automatic temperature (Haarnoja et al. 2018, arXiv 1812.05905): two critics, no value
// network, a tanh Gaussian policy (agent/tanh_gaussian.h) with deviations from the network.
//
//   y = r + discount (min target Q(s', a') - alpha log pi(a'|s')),  a' from the present policy
//   policy:       mean of alpha log pi(a|s) - min Q(s, a), a reparametrised, through both the critics
//   temperature:  mean of -log_alpha (log pi(a|s) + target entropy), by Adam on log_alpha (the authors' code; the paper
//                 writes alpha for log_alpha). The update's other losses use the alpha from before it.
// Actors draw from the policy; evaluation takes tanh(mean), or draws with policy "sample". What is common to DDPG, TD3
// and SAC: off_policy.h, with the thread rule and what is thrown.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "parl/algorithms/off_policy.h"

namespace parl {

struct SacConfig : OffPolicyConfig {
  double alpha = 1;
  bool auto_alpha = true;
  double alpha_lr = 0;
  std::optional<double> target_entropy;

  void check() const;
};
PARL_CONFIG(SacConfig, PARL_OFF_POLICY_FIELDS, (alpha, "temperature, or its first value"),
            (auto_alpha, "learn the temperature"), (alpha_lr, "the temperature's learning rate; 0: lr"),
            (target_entropy, "of the policy in units of -1..1; without: minus the number of action components"));

class Sac : public OffPolicy {
 public:
  static constexpr int kCritics = 2;
  static constexpr bool kTargetPolicy = false;
  explicit Sac(std::shared_ptr<Model> policy, const SacConfig& config = {}, OffPolicyNetworks networks = {},
               const std::string& device = "cpu");

  int64_t noise_draws() const override { return 2; }  // for the next observations, for the present ones
  double alpha() const;

 protected:
  at::Tensor explore(const at::Tensor& parameters, const at::Tensor& uniforms) const override;
  at::Tensor next_value(const at::Tensor& next_obs, const at::Tensor& noise) override;
  void update_policy(const at::Tensor& obs, const at::Tensor& noise, LearnStats& stats) override;
  void append_own_state(Weights& state) const override;  // "sac/temperature"
  void set_own_state(const Weights& state) override;

 private:
  void update_alpha(double entropy, double target);

  SacConfig config_;
  double log_alpha_, m_ = 0, v_ = 0;  // m_, v_: Adam's moments
  int64_t alpha_steps_ = 0;
};

}  // namespace parl
