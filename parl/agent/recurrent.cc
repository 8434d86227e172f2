#include "parl/agent/recurrent.h"

#include <torch/torch.h>

#include "parl/core/check.h"

namespace parl {

at::Tensor RecurrentModel::initial_state(int64_t n) const { return torch::zeros({n, state_size()}); }

PolicyValue RecurrentModel::forward(const at::Tensor&) {
  raise(
      "this network has a memory, so that forward(obs) says nothing: use step(obs, state) or sequence(), and an "
      "algorithm that learns sequences (impala, appo, a2c, ppo, ga3c)");
}

SequenceOutput RecurrentModel::sequence(const Sequence& in) {
  const int64_t unrolls = in.obs.size(0), length = in.obs.size(1);
  const at::Tensor any = in.reset.any(0).cpu(), carried = in.reset.logical_not().to(at::kFloat).unsqueeze(-1);
  at::Tensor state = in.state;
  std::vector<at::Tensor> logits, value, states;
  for (int64_t l = 0; l < length; ++l) {
    if (any.const_data_ptr<bool>()[l]) state = state * carried.select(1, l);
    StepOutput out = step(in.obs.select(1, l), state);
    PARL_CHECK(out.state.dim() == 2 && out.state.size(0) == unrolls && out.state.size(1) == state_size(),
               "step() must give a memory of [{}, {}] back", unrolls, state_size());
    logits.push_back(std::move(out.output.logits));
    value.push_back(std::move(out.output.value));
    state = std::move(out.state);
    if (in.keep.defined()) states.push_back(state.detach());
  }
  SequenceOutput out;
  out.output = {torch::stack(logits, 1).flatten(0, 1), torch::stack(value, 1).flatten(0, 1)};
  if (in.keep.defined()) out.kept = torch::stack(states, 1).flatten(0, 1).index_select(0, in.keep);
  return out;
}

SequenceRecording RecurrentModel::record_sequence(const Sequence& in) {
  torch::AutoGradMode grad(true);
  SequenceOutput out = sequence(in);
  return {autograd_recording(std::move(out.output)), std::move(out.kept)};
}

Sequence sequence_of(const Batch& batch, int64_t length, const RecurrentModel& model, at::Device device) {
  PARL_CHECK(batch.state.defined() && batch.state.size(1) == model.state_size(),
             "the network has a memory of {} floats, the batch {}: rollouts and learner must have the same network",
             model.state_size(), batch.state.defined() ? fmt::format("one of {}", batch.state.size(1)) : "has none");
  const int64_t steps = batch.length();
  const at::Tensor ended = batch.terminated.logical_or(batch.truncated);
  Sequence out;
  out.obs = batch.obs.narrow(1, 0, length).to(device);
  out.state = batch.state.to(device);
  out.reset = torch::zeros({batch.unrolls(), length}, ended.options());
  if (length > 1) out.reset.narrow(1, 1, length - 1).copy_(ended.narrow(1, 0, length - 1));
  out.reset = out.reset.to(device);
  if (batch.final_index.defined() && batch.final_index.numel() > 0) {
    out.keep = (batch.final_index + batch.final_index.div(steps, "floor") * (length - steps)).to(device);
  }
  return out;
}

}  // namespace parl
