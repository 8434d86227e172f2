// What a model must fit: the shape of one observation and the action set. Free of torch; made from an EnvSpec by
// train/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parl/core/dtype.h"

namespace parl {

// What lies where in an observation that is not one array but a Dict, a Tuple or numbers to choose by.
struct ObsPart {
  std::string name;  // "camera", "arm/0"
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;         // of one observation
  int64_t offset = 0;                 // bytes; a multiple of the element's size
  std::vector<int64_t> choices = {};  // number i is one of 0..choices[i]-1; empty: quantities
  double scale = 1;                   // what networks multiply quantities by (images of bytes: 1 / 255)

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
};

struct ModelSpec {
  std::vector<int64_t> obs_shape;  // one observation; images are [H, W, C] uint8
  DType obs_dtype = DType::kF32;
  int64_t num_actions = 0;  // Discrete: how many; several numbers: of all together; 0: continuous
  int64_t action_size = 0;  // Box actions: how many floats; 0: discrete
  std::vector<double> action_low = {},
                      action_high = {};  // Box actions: the bounds of each, infinite where there is none
  // Several numbers an action (MultiDiscrete, MultiBinary): the choices of each. The policy's logits are one number's
  // after the other's, num_actions are all of them.
  std::vector<int64_t> action_choices = {};
  // An observation of parts is uint8 [bytes], obs_shape says how many; agent/obs_parts.h takes it apart.
  std::vector<ObsPart> parts = {};

  // The part that says which actions are legal, uint8 or bool [num_actions]; null where there is none.
  const ObsPart* action_mask() const {
    for (const ObsPart& part : parts) {
      if (part.name == "action_mask") return &part;
    }
    return nullptr;
  }

  // A trunk, the part below a recurrent network's memory (models/lstm.h): no policy, no value. forward() then gives the
  // features of the last layer as logits, and no value.
  bool headless() const { return num_actions == 0 && action_size == 0; }
  // How many numbers describe the policy in one observation: a logit for each action, or mean and log deviation of each
  // component (agent/gaussian.h).
  int64_t policy_size() const { return action_size > 0 ? 2 * action_size : num_actions; }
};

}  // namespace parl
