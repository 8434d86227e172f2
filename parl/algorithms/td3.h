// Td3: twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv 1802.09477).
//
// The policy is tanh of the network's means (deviations that a network has beside them are not used). Actors add normal
// noise and clip to [-1, 1]; evaluation adds none.
//   y = r + discount min target Q(s', clip(target policy(s') + clip(target_noise z, +-target_noise_clip), -1, 1))
//   policy, every policy_delay updates: mean of -Q(s, policy(s)) by the first critic; target networks move then.
// What is common to DDPG, TD3 and SAC: off_policy.h, with the thread rule and what is thrown.
#pragma once

#include <memory>
#include <string>

#include "parl/algorithms/off_policy.h"

namespace parl {

struct Td3Config : OffPolicyConfig {
  double exploration_noise = 0.1;
  double target_noise = 0.2;
  double target_noise_clip = 0.5;
  int64_t policy_delay = 2;

  void check() const;
};
PARL_CONFIG(Td3Config, PARL_OFF_POLICY_FIELDS,
            (exploration_noise, "deviation of the noise on actions in training, in units of -1..1"),
            (target_noise, "deviation of the noise on the target policy's actions; 0: none"),
            (target_noise_clip, "bound of that noise"), (policy_delay, "updates of the critics per one of the policy"));

class Td3 : public OffPolicy {
 public:
  static constexpr int kCritics = 2;
  static constexpr bool kTargetPolicy = true;
  explicit Td3(std::shared_ptr<Model> policy, const Td3Config& config = {}, OffPolicyNetworks networks = {},
               const std::string& device = "cpu");

  int64_t noise_draws() const override { return config_.target_noise > 0 ? 1 : 0; }

 protected:
  at::Tensor explore(const at::Tensor& parameters, const at::Tensor& uniforms) const override;
  at::Tensor next_value(const at::Tensor& next_obs, const at::Tensor& noise) override;
  void update_policy(const at::Tensor& obs, const at::Tensor& noise, LearnStats& stats) override;
  int64_t policy_delay() const override { return config_.policy_delay; }

 private:
  Td3Config config_;
};

}  // namespace parl
