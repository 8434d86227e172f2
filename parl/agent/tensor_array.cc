#include "parl/agent/tensor_array.h"

#include <torch/torch.h>

#include <cstring>

#include "parl/core/check.h"

namespace parl {

at::ScalarType to_scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return at::kBool;
    case DType::kU8:
      return at::kByte;
    case DType::kI8:
      return at::kChar;
    case DType::kI16:
      return at::kShort;
    case DType::kI32:
      return at::kInt;
    case DType::kI64:
      return at::kLong;
    case DType::kF32:
      return at::kFloat;
    case DType::kF64:
      return at::kDouble;
    default:
      raise("tensors have no element type {}; use u1, i1, i2, i4, i8, f4, f8 or b1", dtype_name(dtype));
  }
}

DType to_dtype(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return DType::kBool;
    case at::kByte:
      return DType::kU8;
    case at::kChar:
      return DType::kI8;
    case at::kShort:
      return DType::kI16;
    case at::kInt:
      return DType::kI32;
    case at::kLong:
      return DType::kI64;
    case at::kFloat:
      return DType::kF32;
    case at::kDouble:
      return DType::kF64;
    default:
      raise("arrays have no element type {}; convert the tensor to float32 first", at::toString(type));
  }
}

Array to_array(const at::Tensor& tensor) {
  at::Tensor source = tensor.detach().to(at::kCPU).contiguous();
  Array array = Array::empty(to_dtype(source.scalar_type()), source.sizes().vec());
  if (array.bytes() > 0) std::memcpy(array.data(), source.const_data_ptr(), array.bytes());
  return array;
}

at::Tensor to_tensor(const Array& array) {
  at::Tensor tensor = torch::empty(array.shape(), to_scalar_type(array.dtype()));
  if (array.bytes() > 0) std::memcpy(tensor.mutable_data_ptr(), array.data(), array.bytes());
  return tensor;
}

at::Tensor tensor_view(const Array& array) {
  return torch::from_blob(const_cast<std::byte*>(array.data()), array.shape(),
                          torch::TensorOptions().dtype(to_scalar_type(array.dtype())));
}

const Array* find_entry(const Weights& weights, const std::string& name) {
  for (const NamedArray& entry : weights.entries) {
    if (entry.name == name) return &entry.array;
  }
  return nullptr;
}

const Array& get_entry(const Weights& weights, const std::string& name) {
  if (const Array* array = find_entry(weights, name)) return *array;
  std::vector<std::string> names;
  for (const NamedArray& entry : weights.entries) names.push_back(entry.name);
  raise("no array '{}' among the {} given{}", name, names.size(), did_you_mean(name, names));
}

}  // namespace parl
