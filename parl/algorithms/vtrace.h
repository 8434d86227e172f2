// Targets of the actor-critic family. V-trace off-policy returns (Espeholt et al. 2018, arXiv 1802.01561), one unroll
// in one backward pass.
//
//   next_value[t] = 0 if terminated; V(final observation of t) if truncated; else V(obs[t+1])
//   delta_t = rho_t (r_t + gamma next_value_t - V_t);  acc_t = delta_t + gamma c_t (1 - ended_t) acc_{t+1},  acc_T = 0
//   vs = V + acc
//   advantage_t = pg_rho_t (r_t + gamma q_t - V_t),  q_t = next_value[t] if ended or t = T-1, else vs_{t+1}
// rho_t = min(rho_clip, ratio), c_t = lambda min(c_clip, ratio), pg_rho_t = min(pg_rho_clip, ratio),
// ratio = pi(a) / mu(a). If both flags are set, terminated wins. All T rewards count (T + 1 values come in).
// GAE, the on-policy estimator (Schulman et al. 2016, arXiv 1506.02438), over the same unroll:
//   delta_t = r_t + gamma next_value_t - V_t;  advantage_t = delta_t + gamma lambda (1 - ended_t) advantage_{t+1}
//   vs = V + advantage
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace parl {

struct VtraceOptions {
  double gamma = 0.99;
  double lambda = 1.0;
  // Clips at or below zero are off.
  double rho_clip = 1.0, c_clip = 1.0, pg_rho_clip = 1.0;
  // false: advantages without pg_rho, for a loss that has the ratio itself (APPO).
  bool weigh_advantage = true;
};

// One unroll. Arrays of T elements, but value of T + 1. Strides in elements: 1 for unroll-major, B for time-major.
struct VtraceUnroll {
  int64_t length = 0;
  int64_t stride = 1;
  const float* ratio = nullptr;
  const float* reward = nullptr;
  const bool* terminated = nullptr;
  const bool* truncated = nullptr;
  const float* value = nullptr;        // V(obs[0..T]) under the learner's weights
  const float* final_value = nullptr;  // V(final observation), dense: one per step that is truncated and not terminated
  int64_t final_values = 0;
  float* vs = nullptr;         // out
  float* advantage = nullptr;  // out
};

// Throws parl::Error when final_values is not the number of truncated steps.
void vtrace(const VtraceOptions& options, const VtraceUnroll& unroll);

// `ratio` is not read. Throws as vtrace() does.
void gae(double gamma, double lambda, const VtraceUnroll& unroll);

struct VtraceResult {
  at::Tensor vs, advantage, ratio;  // [B, T]
};

// The same from logits and actions, for B unrolls (unroll-major). value [B, T+1]; final_value [F] in ascending order of
// b * T + t.
VtraceResult vtrace(const VtraceOptions& options, const at::Tensor& logits, const at::Tensor& behaviour_logits,
                    const at::Tensor& action, const at::Tensor& reward, const at::Tensor& terminated,
                    const at::Tensor& truncated, const at::Tensor& value, const at::Tensor& final_value);

}  // namespace parl
