#include "parl/agent/categorical.h"

#include <torch/torch.h>

#include "parl/agent/nonfinite.h"
#include "parl/core/check.h"

namespace parl {
namespace {

void check_logits(const at::Tensor& logits) {
  PARL_CHECK(logits.dim() == 2 && logits.scalar_type() == at::kFloat && logits.is_cpu() && logits.is_contiguous(),
             "logits must be contiguous [N, A] float32 on the CPU");
  const float* data = logits.const_data_ptr<float>();
  float sum = 0;
  for (int64_t i = 0; i < logits.numel(); ++i) sum += data[i] - data[i];  // 0, or NaN for NaN and inf
  if (sum != 0) throw NonFiniteError("logits", "the policy's logits contain NaN or inf; the weights have diverged");
}

}  // namespace

int64_t sample_categorical(const float* logits, int64_t n, float u) {
  float max = logits[0];
  for (int64_t i = 1; i < n; ++i) max = std::max(max, logits[i]);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(logits[i] - max));
  double rest = u * sum;
  int64_t last = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double p = std::exp(static_cast<double>(logits[i] - max));
    if (p <= 0) continue;
    last = i;
    if (rest < p) return i;
    rest -= p;
  }
  return last;
}

int64_t greedy_action(const float* logits, int64_t n) { return std::max_element(logits, logits + n) - logits; }

at::Tensor sample_categorical(const at::Tensor& logits, const at::Tensor& uniforms) {
  check_logits(logits);
  PARL_CHECK(uniforms.dim() == 1 && uniforms.size(0) == logits.size(0) && uniforms.scalar_type() == at::kFloat,
             "uniforms must be [{}] float32, one number in [0, 1) per observation", logits.size(0));
  at::Tensor u = uniforms.cpu().contiguous(), actions = torch::empty({logits.size(0)}, at::kLong);
  const int64_t n = logits.size(1);
  for (int64_t i = 0; i < logits.size(0); ++i) {
    actions.mutable_data_ptr<int64_t>()[i] =
        sample_categorical(logits.const_data_ptr<float>() + i * n, n, u.const_data_ptr<float>()[i]);
  }
  return actions;
}

at::Tensor greedy_action(const at::Tensor& logits) {
  check_logits(logits);
  at::Tensor actions = torch::empty({logits.size(0)}, at::kLong);
  const int64_t n = logits.size(1);
  for (int64_t i = 0; i < logits.size(0); ++i) {
    actions.mutable_data_ptr<int64_t>()[i] = greedy_action(logits.const_data_ptr<float>() + i * n, n);
  }
  return actions;
}

namespace {

// choose(row, number of the action, its logits, its choices) for every number of every action.
template <typename Choose>
at::Tensor each_number(const at::Tensor& logits, const std::vector<int64_t>& choices, Choose&& choose) {
  check_logits(logits);
  int64_t all = 0;
  for (int64_t n : choices) all += n;
  PARL_CHECK_EQ(logits.size(1), all, "a policy over several numbers has a logit for each choice of each");
  const auto numbers = static_cast<int64_t>(choices.size());
  at::Tensor actions = torch::empty({logits.size(0), numbers}, at::kLong);
  const float* row = logits.const_data_ptr<float>();
  int64_t* out = actions.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < logits.size(0); ++i) {
    for (int64_t k = 0; k < numbers; ++k) {
      const int64_t n = choices[static_cast<size_t>(k)];
      *out++ = choose(i, k, row, n);
      row += n;
    }
  }
  return actions;
}

}  // namespace

at::Tensor sample_categorical(const at::Tensor& logits, const at::Tensor& uniforms,
                              const std::vector<int64_t>& choices) {
  if (choices.empty()) return sample_categorical(logits, uniforms);
  const auto numbers = static_cast<int64_t>(choices.size());
  PARL_CHECK(uniforms.dim() == 2 && uniforms.size(0) == logits.size(0) && uniforms.size(1) == numbers &&
                 uniforms.scalar_type() == at::kFloat,
             "uniforms must be [{}, {}] float32: one number in [0, 1) for each number of each action", logits.size(0),
             numbers);
  const at::Tensor u = uniforms.cpu().contiguous();
  const float* draws = u.const_data_ptr<float>();
  return each_number(logits, choices, [&](int64_t i, int64_t k, const float* row, int64_t n) {
    return sample_categorical(row, n, draws[i * numbers + k]);
  });
}

at::Tensor greedy_action(const at::Tensor& logits, const std::vector<int64_t>& choices) {
  if (choices.empty()) return greedy_action(logits);
  return each_number(logits, choices,
                     [](int64_t, int64_t, const float* row, int64_t n) { return greedy_action(row, n); });
}

}  // namespace parl
