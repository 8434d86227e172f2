#include "parl/env/space.h"

#include <fmt/format.h>

#include <cmath>

#include "parl/core/check.h"

namespace parl {
namespace {

double bound_at(const std::vector<double>& bounds, size_t i) { return bounds.size() == 1 ? bounds[0] : bounds[i]; }

template <typename T>
bool all_inside(const Box& box, const void* values, size_t count) {
  const T* v = static_cast<const T*>(values);
  for (size_t i = 0; i < count; ++i) {
    // Bounds as the element type sees them: a float cannot be asked to keep to a double's last bits.
    const double x = static_cast<double>(v[i]);
    double low = bound_at(box.low, i), high = bound_at(box.high, i);
    if constexpr (std::is_same_v<T, float>) {
      low = static_cast<float>(low);
      high = static_cast<float>(high);
    }
    if (!(x >= low && x <= high)) return false;
  }
  return true;
}

std::string bounds_text(const std::vector<double>& bounds) {
  return bounds.size() == 1 ? fmt::format("{}", bounds[0]) : fmt::format("[{}]", fmt::join(bounds, ","));
}

}  // namespace

int64_t Box::size() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

size_t Box::bytes() const { return static_cast<size_t>(size()) * dtype_size(dtype); }

bool Box::bounded() const {
  for (double b : low) {
    if (!std::isfinite(b)) return false;
  }
  for (double b : high) {
    if (!std::isfinite(b)) return false;
  }
  return true;
}

bool Box::contains(const void* values) const {
  const auto count = static_cast<size_t>(size());
  PARL_CHECK(low.size() == 1 || low.size() == count, "a Box needs one lower bound or one per element, not {}",
             low.size());
  PARL_CHECK(high.size() == 1 || high.size() == count, "a Box needs one upper bound or one per element, not {}",
             high.size());
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return all_inside<uint8_t>(*this, values, count);
    case DType::kI8:
      return all_inside<int8_t>(*this, values, count);
    case DType::kU16:
      return all_inside<uint16_t>(*this, values, count);
    case DType::kI16:
      return all_inside<int16_t>(*this, values, count);
    case DType::kU32:
      return all_inside<uint32_t>(*this, values, count);
    case DType::kI32:
      return all_inside<int32_t>(*this, values, count);
    case DType::kU64:
      return all_inside<uint64_t>(*this, values, count);
    case DType::kI64:
      return all_inside<int64_t>(*this, values, count);
    case DType::kF32:
      return all_inside<float>(*this, values, count);
    case DType::kF64:
      return all_inside<double>(*this, values, count);
  }
  raise("a Box has an element type that does not exist: {}", static_cast<int>(dtype));
}

std::string to_string(const Space& space) {
  if (const auto* discrete = std::get_if<Discrete>(&space)) return fmt::format("Discrete({})", discrete->n);
  const Box& box = std::get<Box>(space);
  return fmt::format("Box({}, [{}], {}..{})", dtype_name(box.dtype), fmt::join(box.shape, ","), bounds_text(box.low),
                     bounds_text(box.high));
}

}  // namespace parl
