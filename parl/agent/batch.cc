#include "parl/agent/batch.h"

#include <torch/torch.h>

#include <algorithm>
#include <sstream>

#include "parl/core/check.h"

namespace parl {
namespace {

std::string show(at::IntArrayRef sizes) {
  std::ostringstream os;
  os << sizes;
  return os.str();
}

void check_tensor(const char* name, const at::Tensor& tensor, at::ScalarType dtype, std::vector<int64_t> shape) {
  PARL_CHECK(tensor.defined(), "Batch::{} is missing", name);
  PARL_CHECK(tensor.scalar_type() == dtype, "Batch::{} is {}, expected {}", name, at::toString(tensor.scalar_type()),
             at::toString(dtype));
  PARL_CHECK(tensor.sizes() == at::IntArrayRef(shape), "Batch::{} has shape {}, expected {}", name,
             show(tensor.sizes()), show(shape));
}

}  // namespace

void Batch::check() const {
  PARL_CHECK(reward.defined() && reward.dim() == 2, "Batch::reward must have shape [B, T]");
  const int64_t b = unrolls(), t = length();
  PARL_CHECK(b > 0 && t > 0, "a batch needs at least one unroll of one step, got [{}, {}]", b, t);
  check_tensor("reward", reward, at::kFloat, {b, t});
  const bool continuous = action.defined() && action.is_floating_point();
  if (continuous) {
    check_tensor("action", action, at::kFloat, {b, t, action.dim() == 3 ? action.size(2) : 1});
  } else {
    const bool several = action.defined() && action.dim() == 3;
    check_tensor("action", action, at::kLong, several ? std::vector<int64_t>{b, t, action.size(2)} : std::vector{b, t});
  }
  check_tensor("terminated", terminated, at::kBool, {b, t});
  check_tensor("truncated", truncated, at::kBool, {b, t});
  PARL_CHECK(behaviour_logits.defined() && behaviour_logits.dim() == 3, "Batch::behaviour_logits must be [B, T, A]");
  check_tensor("behaviour_logits", behaviour_logits, at::kFloat, {b, t, behaviour_logits.size(2)});
  PARL_CHECK(!continuous || behaviour_logits.size(2) == 2 * action.size(2),
             "Batch::behaviour_logits must be [B, T, 2A] for actions of A = {} floats", action.size(-1));
  PARL_CHECK(obs.defined() && obs.dim() >= 2 && obs.size(0) == b && obs.size(1) == t + 1,
             "Batch::obs has shape {}, expected [{}, {}, ...]: T + 1 observations an unroll",
             obs.defined() ? show(obs.sizes()) : "(missing)", b, t + 1);
  const int64_t finals = final_index.defined() ? final_index.size(0) : 0;
  if (finals > 0) {
    check_tensor("final_index", final_index, at::kLong, {finals});
    std::vector<int64_t> shape = obs.sizes().slice(2).vec();
    shape.insert(shape.begin(), finals);
    check_tensor("final_obs", final_obs, obs.scalar_type(), shape);
  }
  const int64_t expected = at::logical_and(truncated, terminated.logical_not()).sum().item<int64_t>();
  PARL_CHECK_EQ(finals, expected, "final_obs must hold one observation per truncated step");
  if (version.defined()) check_tensor("version", version, at::kLong, {b});
  if (state.defined()) check_tensor("state", state, at::kFloat, {b, state.dim() == 2 ? state.size(1) : 1});
}

Batch Batch::slice(int64_t first, int64_t count) const {
  PARL_CHECK(first >= 0 && count >= 0 && first + count <= unrolls(), "slice [{}, {}) of a batch of {} unrolls", first,
             first + count, unrolls());
  Batch out;
  out.obs = obs.narrow(0, first, count);
  out.action = action.narrow(0, first, count);
  out.behaviour_logits = behaviour_logits.narrow(0, first, count);
  out.reward = reward.narrow(0, first, count);
  out.terminated = terminated.narrow(0, first, count);
  out.truncated = truncated.narrow(0, first, count);
  if (version.defined()) out.version = version.narrow(0, first, count);
  if (state.defined()) out.state = state.narrow(0, first, count);
  if (final_index.defined() && final_index.numel() > 0) {
    at::Tensor index = final_index.cpu();
    const int64_t* data = index.const_data_ptr<int64_t>();
    const int64_t* end = data + index.numel();
    const int64_t* low = std::lower_bound(data, end, first * length());
    const int64_t* high = std::lower_bound(low, end, (first + count) * length());
    if (high > low) {
      out.final_index = final_index.narrow(0, low - data, high - low) - first * length();
      out.final_obs = final_obs.narrow(0, low - data, high - low);
    }
  }
  return out;
}

Batch Batch::select(const at::Tensor& index) const {
  PARL_CHECK(index.defined() && index.dim() == 1 && index.scalar_type() == at::kLong, "index must be [n] int64");
  Batch out;
  out.obs = obs.index_select(0, index);
  out.action = action.index_select(0, index);
  out.behaviour_logits = behaviour_logits.index_select(0, index);
  out.reward = reward.index_select(0, index);
  out.terminated = terminated.index_select(0, index);
  out.truncated = truncated.index_select(0, index);
  if (version.defined()) out.version = version.index_select(0, index);
  if (state.defined()) out.state = state.index_select(0, index);
  if (!final_index.defined() || final_index.numel() == 0) return out;

  at::Tensor wanted = index.cpu(), steps = final_index.cpu();
  const int64_t* data = steps.const_data_ptr<int64_t>();
  const int64_t* end = data + steps.numel();
  std::vector<int64_t> rows, positions;
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    const int64_t b = wanted.const_data_ptr<int64_t>()[i];
    for (const int64_t* at = std::lower_bound(data, end, b * length()); at < end && *at < (b + 1) * length(); ++at) {
      rows.push_back(at - data);
      positions.push_back(i * length() + *at - b * length());
    }
  }
  if (!rows.empty()) {
    out.final_index = torch::tensor(positions, torch::kLong).to(final_index.device());
    out.final_obs = final_obs.index_select(0, torch::tensor(rows, torch::kLong).to(final_obs.device()));
  }
  return out;
}

Batch Batch::to(at::Device device) const {
  auto move = [&](const at::Tensor& t) { return t.defined() ? t.to(device) : t; };
  return {move(obs),       move(action),      move(behaviour_logits), move(reward),  move(terminated),
          move(truncated), move(final_index), move(final_obs),        move(version), move(state)};
}

}  // namespace parl
