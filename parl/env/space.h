// What an environment observes and accepts. Values; copy freely.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "parl/core/dtype.h"

namespace parl {

// An array of `shape` with elements in [low, high]. low/high hold one value for all elements or one per element.
// Unbounded is +-infinity. Images are uint8, height x width x channels (HWC: a network may read them as channels-last
// without moving a byte).
struct Box {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<double> low{-1.0}, high{1.0};

  int64_t size() const;                     // elements
  size_t bytes() const;                     // size() * dtype_size(dtype)
  bool bounded() const;                     // every bound is finite
  bool contains(const void* values) const;  // values: size() elements of dtype; NaN is never inside
  bool operator==(const Box&) const = default;
};

// {0, ..., n-1}.
struct Discrete {
  int64_t n = 0;
  bool operator==(const Discrete&) const = default;
};

using Space = std::variant<Box, Discrete>;

std::string to_string(const Space& space);  // "Box(u1, [84,84,4], 0..255)", "Discrete(6)"

}  // namespace parl
