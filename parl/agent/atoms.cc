#include "parl/agent/atoms.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "parl/core/check.h"

namespace parl {

void Atoms::check() const {
  PARL_CHECK(count >= 2, "atoms is {}: a distribution needs at least 2", count);
  PARL_CHECK(std::isfinite(v_min) && std::isfinite(v_max) && v_min < v_max,
             "v-min is {} and v-max {}: v-min must be below v-max, both finite", v_min, v_max);
}

int64_t Atoms::actions(int64_t outputs) const {
  const int64_t actions = outputs / count - (dueling ? 1 : 0);
  PARL_CHECK(outputs % count == 0 && actions > 0,
             "a network with {} outputs does not fit {} atoms{}: it needs {} outputs for each action{}", outputs, count,
             dueling ? " with dueling" : "", count, dueling ? ", and as many for the value" : "");
  return actions;
}

at::Tensor Atoms::values() const { return torch::arange(count).to(at::kDouble).mul(gap()).add(v_min).to(at::kFloat); }

at::Tensor Atoms::log_probs(const at::Tensor& logits) const {
  const int64_t a = actions(logits.size(1));
  at::Tensor joined = logits.narrow(1, 0, a * count).reshape({-1, a, count});
  if (dueling) joined = joined - joined.mean(1, true) + logits.narrow(1, a * count, count).unsqueeze(1);
  return joined.log_softmax(2);
}

at::Tensor Atoms::q_values(const at::Tensor& logits) const {
  return log_probs(logits).exp().matmul(values().to(logits.device()));
}

at::Tensor Atoms::logits_gradient(const at::Tensor& joined, const at::Tensor& action, int64_t actions) const {
  const int64_t n = joined.size(0);
  const at::Tensor place = action.view({n, 1, 1}).expand({n, 1, count});
  at::Tensor each = torch::zeros({n, actions, count}, joined.options()).scatter_(1, place, joined.unsqueeze(1));
  if (!dueling) return each.flatten(1);
  each = each - joined.unsqueeze(1) / static_cast<double>(actions);
  return at::cat({each.flatten(1), joined}, 1);
}

at::Tensor Atoms::project(const at::Tensor& reward, const at::Tensor& discount, const at::Tensor& probs) const {
  const int64_t n = probs.size(0);
  PARL_CHECK(probs.size(1) == count && reward.numel() == n && discount.numel() == n,
             "project wants one reward, discount and distribution of {} atoms each", count);
  const at::Tensor p = probs.contiguous(), r = reward.contiguous(), g = discount.contiguous();
  const at::Tensor out = torch::zeros({n, count});
  for (int64_t i = 0; i < n; ++i) {
    const float* from = p.const_data_ptr<float>() + i * count;
    float* to = out.mutable_data_ptr<float>() + i * count;
    const double shift = r.const_data_ptr<float>()[i], scale = g.const_data_ptr<float>()[i];
    for (int64_t j = 0; j < count; ++j) {
      const double value = std::clamp(shift + scale * (v_min + static_cast<double>(j) * gap()), v_min, v_max);
      const double place = (value - v_min) / gap();
      const int64_t low = std::min(static_cast<int64_t>(place), count - 1);
      const auto rest = static_cast<float>(place - static_cast<double>(low));  // 0 on an atom: all goes there
      to[low] += from[j] * (1 - rest);
      if (low + 1 < count) to[low + 1] += from[j] * rest;
    }
  }
  return out;
}

}  // namespace parl
