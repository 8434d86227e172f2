#include "parl/agent/policy_act.h"

#include <torch/torch.h>

#include "parl/agent/categorical.h"
#include "parl/agent/gaussian.h"
#include "parl/agent/recurrent.h"
#include "parl/core/check.h"

namespace parl {

ActOutput policy_act(Model& model, const ActInput& in, at::Device device) {
  torch::NoGradGuard no_grad;
  PolicyValue policy;
  ActOutput out;
  if (RecurrentModel* recurrent = model.recurrent()) {
    PARL_CHECK(in.state.defined(),
               "this network has a memory: call act({{obs, uniforms, state}}) and hand the state that it gives back in "
               "with the next observations");
    StepOutput step = recurrent->step(in.obs.to(device), in.state.to(device));
    policy = std::move(step.output);
    out.state = step.state.to(at::kCPU).contiguous();
  } else {
    policy = model.forward(in.obs.to(device));
  }
  out.logits = policy.logits.to(at::kCPU).contiguous();
  out.value = policy.value.to(at::kCPU).contiguous();
  const bool gaussian = model.is_gaussian();
  if (in.uniforms.defined()) {
    out.action = gaussian ? sample_gaussian(out.logits, in.uniforms)
                          : sample_categorical(out.logits, in.uniforms, model.action_choices());
  } else {
    out.action = gaussian ? gaussian_mean(out.logits) : greedy_action(out.logits, model.action_choices());
  }
  return out;
}

}  // namespace parl
