#include "parl/agent/tensor.h"

#include <torch/torch.h>

#include <cstring>

#include "parl/core/check.h"

namespace parl {

at::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::kBool: return at::kBool;
    case DType::kU8: return at::kByte;
    case DType::kI8: return at::kChar;
    case DType::kI16: return at::kShort;
    case DType::kI32: return at::kInt;
    case DType::kI64: return at::kLong;
    case DType::kF32: return at::kFloat;
    case DType::kF64: return at::kDouble;
    default: raise("arrays of {} cannot become tensors: use a signed integer, u1, f4 or f8", dtype_name(dtype));
  }
}

DType dtype_of_scalar(at::ScalarType type) {
  switch (type) {
    case at::kBool: return DType::kBool;
    case at::kByte: return DType::kU8;
    case at::kChar: return DType::kI8;
    case at::kShort: return DType::kI16;
    case at::kInt: return DType::kI32;
    case at::kLong: return DType::kI64;
    case at::kFloat: return DType::kF32;
    case at::kDouble: return DType::kF64;
    default: raise("tensors of {} do not travel: convert to float32 first", at::toString(type));
  }
}

at::Tensor tensor_view(const Array& array) {
  return torch::from_blob(const_cast<std::byte*>(array.data()), array.shape(),
                          torch::TensorOptions().dtype(scalar_type_of(array.dtype())));
}

Array to_array(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kCPU).contiguous();
  Array out = Array::empty(dtype_of_scalar(flat.scalar_type()), flat.sizes().vec());
  if (out.bytes() > 0) std::memcpy(out.data(), flat.data_ptr(), out.bytes());
  return out;
}

}  // namespace parl
