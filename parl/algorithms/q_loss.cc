#include "parl/algorithms/q_loss.h"

#include <torch/torch.h>

#include "parl/agent/categorical.h"

namespace parl {
namespace {

// What a mask leaves, [N, A] bool.
at::Tensor legal(const at::Tensor& logits) { return logits.gt(kIllegalLogit / 2); }

}  // namespace

at::Tensor plain_q_values(const PolicyValue& output, bool dueling, bool masked) {
  if (!dueling) return output.logits;
  if (masked) {
    const at::Tensor is_legal = legal(output.logits);
    const at::Tensor mean =
        output.logits.masked_fill(is_legal.logical_not(), 0).sum(1, true) / is_legal.sum(1, true).to(at::kFloat);
    return at::where(is_legal, output.logits - mean + output.value.unsqueeze(1), output.logits);
  }
  return output.logits - output.logits.mean(1, true) + output.value.unsqueeze(1);
}

QLoss huber_loss(const PolicyValue& output, bool dueling, const at::Tensor& action, const at::Tensor& y,
                 const at::Tensor& weight, bool masked) {
  torch::NoGradGuard no_grad;
  const at::Tensor all = plain_q_values(output, dueling, masked), index = action.unsqueeze(1);
  const at::Tensor q = all.gather(1, index).squeeze(1), error = q - y, size = error.abs();
  const at::Tensor huber = at::where(size.le(1), 0.5 * error * error, size - 0.5);
  const at::Tensor d_q = weight * error.clamp(-1, 1) / torch::tensor(static_cast<double>(y.numel()));
  QLoss out;
  out.loss = (weight * huber).mean().item<double>();
  out.d_logits = torch::zeros_like(all).scatter(1, index, d_q.unsqueeze(1));
  if (dueling && masked) {
    const at::Tensor is_legal = legal(output.logits);
    out.d_logits = out.d_logits - is_legal * (d_q / is_legal.sum(1)).unsqueeze(1);
  } else if (dueling) {
    out.d_logits = out.d_logits - (d_q / static_cast<double>(all.size(1))).unsqueeze(1);
  }
  out.d_value = dueling ? d_q : torch::zeros_like(d_q);
  out.priority = size;
  out.q_mean = q.mean().item<double>();
  out.target_mean = y.mean().item<double>();
  out.td_error = size.mean().item<double>();
  return out;
}

QLoss atoms_loss(const Atoms& atoms, const PolicyValue& output, const at::Tensor& action, const at::Tensor& m,
                 const at::Tensor& weight) {
  torch::NoGradGuard no_grad;
  const int64_t n = m.size(0), actions = atoms.actions(output.logits.size(1));
  const at::Tensor place = action.view({n, 1, 1}).expand({n, 1, atoms.count});
  const at::Tensor taken = atoms.log_probs(output.logits).gather(1, place).squeeze(1);  // [N, atoms]
  const at::Tensor each = -(m * taken).sum(1), z = atoms.values();
  const at::Tensor q = taken.exp().matmul(z), y = m.matmul(z);
  const at::Tensor d_joined = weight.unsqueeze(1) * (taken.exp() - m) / static_cast<double>(n);
  QLoss out;
  out.loss = (weight * each).mean().item<double>();
  out.d_logits = atoms.logits_gradient(d_joined, action, actions);
  out.d_value = torch::zeros({n});
  out.priority = each + at::xlogy(m, m).sum(1);
  out.q_mean = q.mean().item<double>();
  out.target_mean = y.mean().item<double>();
  out.td_error = (q - y).abs().mean().item<double>();
  return out;
}

}  // namespace parl
