#include "parl/models/internal/lstm_kernels.h"

#include <bit>

namespace parl::internal {
namespace {

// e^x = 2^n e^r with |r| <= log(2) / 2, e^r by its series. NaN stays NaN.
inline float exp_of(float x) {
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves no fraction
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float n = (x * kLog2e + kRound) - kRound;
  const float r = x - n * kLn2High - n * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exp_of(-x)); }
inline float tanh_of(float x) { return 1.0f - 2.0f / (1.0f + exp_of(2.0f * x)); }

// Loops of their own, so that they become vector instructions.
void forward_row(int64_t n, float carried, const float* __restrict before, float* __restrict i, float* __restrict f,
                 float* __restrict g, float* __restrict o, float* __restrict h, float* __restrict c,
                 float* __restrict tanh_c) {
  for (int64_t k = 0; k < n; ++k) i[k] = sigmoid(i[k]);
  for (int64_t k = 0; k < n; ++k) f[k] = sigmoid(f[k]);
  for (int64_t k = 0; k < n; ++k) g[k] = tanh_of(g[k]);
  for (int64_t k = 0; k < n; ++k) o[k] = sigmoid(o[k]);
  for (int64_t k = 0; k < n; ++k) {
    c[k] = f[k] * (before[k] * carried) + i[k] * g[k];
    tanh_c[k] = tanh_of(c[k]);
    h[k] = o[k] * tanh_c[k];
  }
}

void backward_row(int64_t n, float carried, const float* __restrict before, const float* __restrict gates,
                  const float* __restrict tanh_c, const float* __restrict d_h, float* __restrict later_c,
                  float* __restrict d_gates) {
  const float *i = gates, *f = gates + n, *g = gates + 2 * n, *o = gates + 3 * n;
  float *d_i = d_gates, *d_f = d_gates + n, *d_g = d_gates + 2 * n, *d_o = d_gates + 3 * n;
  for (int64_t k = 0; k < n; ++k) d_o[k] = d_h[k] * tanh_c[k] * o[k] * (1 - o[k]);
  for (int64_t k = 0; k < n; ++k) later_c[k] += d_h[k] * o[k] * (1 - tanh_c[k] * tanh_c[k]);
  for (int64_t k = 0; k < n; ++k) d_i[k] = later_c[k] * g[k] * i[k] * (1 - i[k]);
  for (int64_t k = 0; k < n; ++k) d_f[k] = later_c[k] * (before[k] * carried) * f[k] * (1 - f[k]);
  for (int64_t k = 0; k < n; ++k) d_g[k] = later_c[k] * i[k] * (1 - g[k] * g[k]);
  for (int64_t k = 0; k < n; ++k) later_c[k] *= f[k] * carried;
}

void add(int64_t n, const float* __restrict from, float* __restrict to) {
  for (int64_t k = 0; k < n; ++k) to[k] += from[k];
}

}  // namespace

void lstm_forward(const LstmStep& s) {
  for (int64_t row = 0; row < s.rows; ++row) {
    float* gates = s.gates + row * s.gates_stride;
    forward_row(s.size, s.carried[row * s.carried_stride], s.before + row * s.before_stride, gates, gates + s.size,
                gates + 2 * s.size, gates + 3 * s.size, s.h + row * s.stride, s.c + row * s.stride,
                s.tanh_c + row * s.stride);
  }
}

void lstm_backward(const LstmStep& s, const LstmStepGradient& d) {
  for (int64_t row = 0; row < s.rows; ++row) {
    float *later_h = d.later_h + row * s.size, *later_c = d.later_c + row * s.size;
    if (d.d_h) add(s.size, d.d_h + row * s.stride, later_h);
    if (d.d_c) add(s.size, d.d_c + row * s.stride, later_c);
    backward_row(s.size, s.carried[row * s.carried_stride], s.before + row * s.before_stride,
                 s.gates + row * s.gates_stride, s.tanh_c + row * s.stride, later_h, later_c,
                 d.d_gates + row * s.gates_stride);
  }
}

}  // namespace parl::internal
