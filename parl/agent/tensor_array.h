// at::Tensor <-> parl::Array. to_array and to_tensor copy; the tensor comes out contiguous on the CPU.
// Throws parl::Error for a dtype that arrays do not have (half, complex, quantised).
#pragma once

#include <ATen/core/Tensor.h>

#include "parl/agent/weights.h"
#include "parl/wire/array.h"

namespace parl {

at::ScalarType to_scalar_type(DType dtype);
DType to_dtype(at::ScalarType type);

Array to_array(const at::Tensor& tensor);
at::Tensor to_tensor(const Array& array);
// The array's own memory as a tensor, without a copy; valid while the array lives and is not moved from.
at::Tensor tensor_view(const Array& array);

// The entry of that name, or nullptr.
const Array* find_entry(const Weights& weights, const std::string& name);
// The entry of that name; throws naming the near ones.
const Array& get_entry(const Weights& weights, const std::string& name);

}  // namespace parl
