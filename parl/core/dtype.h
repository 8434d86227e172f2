// Element types shared by arrays on the wire and observation spaces. Little-endian, fixed widths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace parl {

enum class DType : uint8_t { kBool, kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF32, kF64 };

constexpr size_t dtype_size(DType d) {
  constexpr size_t kSizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  return kSizes[static_cast<size_t>(d)];
}

// numpy-like short names: b1 u1 i1 u2 i2 u4 i4 u8 i8 f4 f8.
constexpr std::string_view dtype_name(DType d) {
  constexpr std::string_view kNames[] = {"b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"};
  return kNames[static_cast<size_t>(d)];
}

template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<bool>() {
  return DType::kBool;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::kU8;
}
template <>
constexpr DType dtype_of<int8_t>() {
  return DType::kI8;
}
template <>
constexpr DType dtype_of<uint16_t>() {
  return DType::kU16;
}
template <>
constexpr DType dtype_of<int16_t>() {
  return DType::kI16;
}
template <>
constexpr DType dtype_of<uint32_t>() {
  return DType::kU32;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType dtype_of<uint64_t>() {
  return DType::kU64;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::kI64;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kF64;
}

}  // namespace parl
