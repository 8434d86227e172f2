// What a model must fit: the shape of one observation and the action set. Free of torch; made from an EnvSpec by
// train/.
#pragma once

#include <cstdint>
#include <vector>

#include "parl/core/dtype.h"

namespace parl {

struct ModelSpec {
  std::vector<int64_t> obs_shape;  // one observation; images are [H, W, C] uint8
  DType obs_dtype = DType::kF32;
  int64_t num_actions = 0;  // Discrete: how many; 0: continuous
  int64_t action_size = 0;  // Box actions: how many floats; 0: discrete
  std::vector<double> action_low = {},
                      action_high = {};  // Box actions: the bounds of each, infinite where there is none

  // A trunk, the part below a recurrent network's memory (models/lstm.h): no policy, no value. forward() then gives the
  // features of the last layer as logits, and no value.
  bool headless() const { return num_actions == 0 && action_size == 0; }
  // How many numbers describe the policy in one observation: a logit for each action, or mean and log deviation of each
  // component (agent/gaussian.h).
  int64_t policy_size() const { return action_size > 0 ? 2 * action_size : num_actions; }
};

}  // namespace parl
