// Observations of one array on their way into a fully connected network.
#pragma once

#include <cstdint>

#include "parl/agent/spec.h"
#include "parl/core/check.h"

namespace parl {

// How many numbers one observation has. Throws where it has parts: its bytes are no numbers to learn from. `model` is
// for the message.
inline int64_t flat_size(const ModelSpec& spec, const char* model) {
  PARL_CHECK(spec.parts.empty(),
             "{} takes an observation of one array; this one has {} parts, the first '{}': use dict", model,
             spec.parts.size(), spec.parts[0].name);
  int64_t size = 1;
  for (const int64_t dim : spec.obs_shape) size *= dim;
  return size;
}

}  // namespace parl
