// The categorical policy over logits: exact log-softmax, sampling by inverse CDF, on plain floats.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace parl {

// log_probs[i] = logits[i] - log(sum exp(logits)), with the maximum taken out first. In-place is allowed.
inline void log_softmax(const float* logits, int64_t n, float* log_probs) {
  float max = logits[0];
  for (int64_t i = 1; i < n; ++i) max = std::max(max, logits[i]);
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(logits[i] - max);
  const float shift = max + std::log(sum);
  for (int64_t i = 0; i < n; ++i) log_probs[i] = logits[i] - shift;
}

// The action whose interval of the cumulative softmax holds u in [0, 1). Never an action of probability zero.
int64_t sample_categorical(const float* logits, int64_t n, float u);
int64_t greedy_action(const float* logits, int64_t n);  // the first of the largest

// logits [N, A] float32, uniforms [N] float32 -> [N] int64. Throws NonFiniteError when a logit is NaN or infinite.
at::Tensor sample_categorical(const at::Tensor& logits, const at::Tensor& uniforms);
at::Tensor greedy_action(const at::Tensor& logits);

// The same of actions of several numbers, each with a categorical policy of its own: choices n_1..n_K, logits [N, sum
// n_k] one after the other, uniforms [N, K] -> [N, K] int64. Empty choices: one action, as above.
at::Tensor sample_categorical(const at::Tensor& logits, const at::Tensor& uniforms,
                              const std::vector<int64_t>& choices);
at::Tensor greedy_action(const at::Tensor& logits, const std::vector<int64_t>& choices);

// The logit of an action that a mask forbids: finite, and its probability is exactly 0 beside any legal one.
inline constexpr float kIllegalLogit = -1e9f;

}  // namespace parl
