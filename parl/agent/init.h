// Orthogonal initialisation, as the on-policy literature uses it (Saxe et al. 2013, arXiv 1312.6120).
// Draws from torch's global generator: torch::manual_seed first for reproducible weights.
#pragma once

#include <ATen/core/Tensor.h>

namespace parl {

inline constexpr double kReluGain = 1.4142135623730951;
// Of the first layer of a plain CNN over pixels: the objects that matter cover few of them, by little contrast. Pong
// with PARL's settings was at -9.6 after 2 M steps with pixel_init and this gain, at -20.2 after 3 M with neither.
inline constexpr double kPixelGain = 4 * kReluGain;
inline constexpr double kPolicyGain = 0.01;  // near-uniform first policy: its entropy is log(actions) within 1 %

// Fills weight [out, in...] in place with a (semi-)orthogonal matrix times gain, and bias (if defined) with zero.
void orthogonal_init(const at::Tensor& weight, const at::Tensor& bias, double gain);

// For the first convolution [out, in, kh, kw] over pixels scaled to 0..1: orthogonal, times gain, then every filter's
// mean is taken out. Such filters see edges and motion but not the level of a uniform, still area, which else fills
// most of every feature (LeCun et al. 1998, "Efficient BackProp", section 4.3: inputs of mean zero).
void pixel_init(const at::Tensor& weight, const at::Tensor& bias, double gain);

}  // namespace parl
