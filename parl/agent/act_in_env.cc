#include "parl/agent/act_in_env.h"

#include <torch/torch.h>

#include "parl/agent/nonfinite.h"
#include "parl/agent/obs_parts.h"

namespace parl {
namespace {

// Throws for the first row of `values` [N, ...] that is not finite.
void check_rows(const at::Tensor& values, const std::string& what, const std::string& env) {
  if (!values.is_floating_point()) return;
  const at::Tensor is_finite = at::isfinite(values).reshape({values.size(0), -1}).all(1);
  for (int64_t i = 0; i < values.size(0); ++i) {
    if (is_finite[i].item<bool>()) continue;
    throw NonFiniteError("obs", fmt::format("{} of '{}' holds NaN or inf (row {} of {}): the environment gave it, the "
                                            "weights are not to blame. Look at what its reset() and step() write",
                                            what, env, i, values.size(0)));
  }
}

}  // namespace

ActOutput act_in_env(Algorithm& algorithm, const ActInput& in, const ModelSpec& spec, const std::string& env) {
  try {
    return algorithm.act(in);
  } catch (const NonFiniteError&) {
    const at::Tensor obs = in.obs.cpu();
    if (spec.parts.empty()) check_rows(obs, "an observation", env);
    for (const ObsPart& part : spec.parts) {
      check_rows(part_view(obs, part), fmt::format("the part '{}' of an observation", part.name), env);
    }
    throw;
  }
}

}  // namespace parl
