// Image observations on their way into a network.
#pragma once

#include <ATen/core/Tensor.h>

#include "parl/agent/spec.h"

namespace parl {

// What uint8 pixels are multiplied with; networks fold it into their first layer's weights.
inline constexpr double kPixelScale = 1.0 / 255.0;

// Throws unless the spec is an [H, W, C] image, uint8 or float32, with a Discrete action set.
void check_image_spec(const ModelSpec& spec, const char* model);

// [N, H, W, C] -> float32 [N, C, H, W] in channels-last memory: a view for float images, one conversion for uint8.
at::Tensor image_to_float(const at::Tensor& obs, const ModelSpec& spec);

}  // namespace parl
