// Acting in a named environment: where an algorithm finds NaN or inf while it acts, the observations are looked at, and
// if they hold some it is they that the error names, not the weights.
#pragma once

#include <string>

#include "parl/agent/algorithm.h"
#include "parl/agent/spec.h"

namespace parl {

// algorithm.act(in), with in.obs [N, ...spec.obs_shape] of `env`. Throws what act() throws; NonFiniteError naming
// "obs", the environment and the row where the observations are to blame. Looks at them only then. Thread rule: the
// algorithm's.
ActOutput act_in_env(Algorithm& algorithm, const ActInput& in, const ModelSpec& spec, const std::string& env);

}  // namespace parl
