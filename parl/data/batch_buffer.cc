#include "parl/data/batch_buffer.h"

#include <torch/torch.h>

#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"

namespace parl {
namespace {

at::Tensor& reuse(at::Tensor& buffer, at::IntArrayRef shape, at::ScalarType type) {
  if (!buffer.defined() || buffer.sizes() != shape || buffer.scalar_type() != type) buffer = torch::empty(shape, type);
  return buffer;
}

using Member = Array Rollout::*;

// Copies one member of every rollout below each other into `buffer`.
at::Tensor stack(at::Tensor& buffer, std::span<const Rollout> rollouts, Member member, const char* name) {
  const at::Tensor first = tensor_view(rollouts[0].*member);
  std::vector<int64_t> shape(first.sizes().begin(), first.sizes().end());
  shape[0] = 0;
  for (const Rollout& r : rollouts) {
    const at::Tensor part = tensor_view(r.*member);
    PARL_CHECK(
        part.scalar_type() == first.scalar_type() && part.sizes().slice(1) == first.sizes().slice(1),
        "rollouts of one batch disagree in {}: actors {} and {} must have the same environment, model and length", name,
        rollouts[0].actor, r.actor);
    shape[0] += part.size(0);
  }
  at::Tensor& out = reuse(buffer, shape, first.scalar_type());
  int64_t row = 0;
  for (const Rollout& r : rollouts) {
    const at::Tensor part = tensor_view(r.*member);
    out.narrow(0, row, part.size(0)).copy_(part);
    row += part.size(0);
  }
  return out;
}

}  // namespace

Batch BatchBuffer::assemble(std::span<const Rollout> rollouts) {
  PARL_CHECK(!rollouts.empty(), "a batch needs at least one rollout");
  Batch& b = buffers_;
  Batch out;
  out.obs = stack(b.obs, rollouts, &Rollout::obs, "obs");
  out.action = stack(b.action, rollouts, &Rollout::action, "action");
  out.behaviour_logits = stack(b.behaviour_logits, rollouts, &Rollout::behaviour_logits, "behaviour_logits");
  out.reward = stack(b.reward, rollouts, &Rollout::reward, "reward");
  out.terminated = stack(b.terminated, rollouts, &Rollout::terminated, "terminated");
  out.truncated = stack(b.truncated, rollouts, &Rollout::truncated, "truncated");

  if (rollouts[0].state.size() > 0) out.state = stack(b.state, rollouts, &Rollout::state, "state");

  std::vector<at::Tensor> index, final_obs, version;
  int64_t first_step = 0;
  for (const Rollout& r : rollouts) {
    if (r.final_index.size() > 0) {
      index.push_back(tensor_view(r.final_index) + first_step);
      final_obs.push_back(tensor_view(r.final_obs));
    }
    first_step += r.steps();
    version.push_back(torch::full({r.unrolls()}, r.version, torch::kInt64));
  }
  out.final_index = index.empty() ? torch::empty({0}, torch::kInt64) : torch::cat(index);
  if (!final_obs.empty()) out.final_obs = torch::cat(final_obs);
  out.version = torch::cat(version);
  return out;
}

}  // namespace parl
