#include "parl/wire/wire.h"

namespace parl {
namespace {
constexpr size_t kMaxDimensions = 64;
}

void Wire<Array>::save(Writer& w, const Array& value) {
  w.number(static_cast<uint8_t>(value.dtype()));
  const bool was_moved_from = value.ndim() == 0 && value.size() == 0;
  const Shape shape = was_moved_from ? Shape{0} : value.shape();
  w.number(static_cast<uint8_t>(shape.size()));
  for (int64_t extent : shape) w.number(extent);
  w.payload(value.data(), value.bytes(), &value);
}

void Wire<Array>::load(Reader& r, Array& value) {
  const auto code = r.number<uint8_t>();
  if (code > static_cast<uint8_t>(DType::kF64)) r.fail("element type {}", code);
  const auto dtype = static_cast<DType>(code);
  const auto ndim = r.number<uint8_t>();
  if (ndim > kMaxDimensions) r.fail("{} dimensions", ndim);
  Shape shape(ndim);
  for (int64_t& extent : shape) extent = r.number<int64_t>();
  size_t bytes = 0;
  try {
    bytes = static_cast<size_t>(shape_size(shape, dtype)) * dtype_size(dtype);
  } catch (const Error& error) {
    r.fail("{}", error.what());
  }
  r.expect_payload(bytes);
  value = Array::adopt(dtype, std::move(shape), r.take_payload(bytes));
  if (dtype != DType::kBool) return;
  for (std::byte b : std::span(value.data(), bytes)) {
    if (std::to_integer<uint8_t>(b) > 1) r.fail("a bool is {}", std::to_integer<uint8_t>(b));
  }
}

}  // namespace parl
