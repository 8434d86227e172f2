// Orthogonal initialisation, as the on-policy literature uses it (Saxe et al. 2013, arXiv 1312.6120).
// Draws from torch's global generator: torch::manual_seed first for reproducible weights.
#pragma once

#include <ATen/core/Tensor.h>

namespace parl {

inline constexpr double kReluGain = 1.4142135623730951;
inline constexpr double kPolicyGain = 0.01;  // near-uniform first policy: its entropy is log(actions) within 1 %

// Fills weight [out, in...] in place with a (semi-)orthogonal matrix times gain, and bias (if defined) with zero.
void orthogonal_init(const at::Tensor& weight, const at::Tensor& bias, double gain);

}  // namespace parl
