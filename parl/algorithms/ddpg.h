// Ddpg: deep deterministic policy gradient (Lillicrap et al. 2015, arXiv 1509.02971): TD3 (td3.h) with one critic, no
// noise on targets and no delay. The exploration noise is normal and independent from step to step; the paper's is
// correlated, which Fujimoto et al. 2018 (section 6.1) found to bring nothing.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "parl/algorithms/td3.h"

namespace parl {

struct DdpgConfig : OffPolicyConfig {
  double exploration_noise = 0.1;

  void check() const { as_td3().check(); }
  Td3Config as_td3() const {
    Td3Config config;
    static_cast<OffPolicyConfig&>(config) = *this;
    config.exploration_noise = exploration_noise;
    config.target_noise = 0;
    config.policy_delay = 1;
    return config;
  }
};
PARL_CONFIG(DdpgConfig, PARL_OFF_POLICY_FIELDS,
            (exploration_noise, "deviation of the noise on actions in training, in units of -1..1"));

class Ddpg : public Td3 {
 public:
  static constexpr int kCritics = 1;
  explicit Ddpg(std::shared_ptr<Model> policy, const DdpgConfig& config = {}, OffPolicyNetworks networks = {},
                const std::string& device = "cpu")
      : Td3(std::move(policy), config.as_td3(), std::move(networks), device) {}
};

}  // namespace parl
