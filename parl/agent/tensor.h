// Between tensors and arrays on the wire.
#pragma once

#include <ATen/core/Tensor.h>

#include "parl/wire/array.h"

namespace parl {

at::ScalarType scalar_type_of(DType dtype);
DType dtype_of_scalar(at::ScalarType type);  // throws parl::Error for types that do not travel (half, complex, ...)

// A view of the array's memory; valid while the array lives and is not moved from.
at::Tensor tensor_view(const Array& array);
// A copy of the tensor's elements, contiguous, from any device.
Array to_array(const at::Tensor& tensor);

}  // namespace parl
