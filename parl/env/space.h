// What an environment observes and accepts. Values; copy freely.
//
// An observation is one block of bytes. That of a Box is the Box; any other space is laid out as named parts in it
// (lay_out), each where its numbers are aligned:
//
//   spec.set_observation(Dict{{{"camera", Box{DType::kU8, {64, 64, 3}, {0}, {255}}}, {"gear", Discrete{5}}}});
//   part_of<uint8_t>(obs, spec.part("camera"));  // 64 * 64 * 3 bytes
//   part_of<int64_t>(obs, spec.part("gear"))[0] = 3;
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
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

// Several numbers, number i of {0, ..., n[i]-1}.
struct MultiDiscrete {
  std::vector<int64_t> n;
  bool operator==(const MultiDiscrete&) const = default;
};

// n numbers, each 0 or 1.
struct MultiBinary {
  int64_t n = 0;
  bool operator==(const MultiBinary&) const = default;
};

struct Space;

// Spaces by name, in this order. For observations.
struct Dict {
  std::vector<std::pair<std::string, Space>> items;
  bool operator==(const Dict& other) const;
};

// Spaces one after another. For observations.
struct Tuple {
  std::vector<Space> items;
  bool operator==(const Tuple& other) const;
};

struct Space : std::variant<Box, Discrete, MultiDiscrete, MultiBinary, Dict, Tuple> {
  using variant::variant;
};

// "Box(u1, [84,84,4], 0..255)", "Discrete(6)", "MultiDiscrete([3,2])", "MultiBinary(4)", "Dict(gear: Discrete(5))",
// "Tuple(Discrete(2), Discrete(3))"
std::string to_string(const Space& space);

// How many values each number of a Discrete, MultiDiscrete or MultiBinary space can have; empty for a Box. Throws for
// Dict and Tuple.
std::vector<int64_t> choices_of(const Space& space);

// A part of an observation that is not one Box.
struct SpacePart {
  std::string name;            // a Dict's key, a Tuple's index from 0; nested ones joined by '/': "arm/0"
  Space space;                 // Box, Discrete, MultiDiscrete or MultiBinary
  DType dtype = DType::kF32;   // a Box's own; int64 for Discrete and MultiDiscrete, uint8 for MultiBinary
  std::vector<int64_t> shape;  // a Box's own; [] for Discrete, [n] for the others
  size_t offset = 0;           // bytes from the beginning of the observation; a multiple of the element's size

  size_t bytes() const;
  bool contains(const void* values) const;  // aligned for dtype
  bool operator==(const SpacePart&) const = default;
};

struct ObservationLayout {
  Box block;                     // the Box itself, or uint8 [bytes] with bytes a multiple of 8
  std::vector<SpacePart> parts;  // empty for a Box; a space that is neither Dict nor Tuple is one part "obs"
};

// Throws when a name is empty or there twice, or a Dict or Tuple has nothing in it.
ObservationLayout lay_out(const Space& space);

// The place of a part within an observation that begins at a multiple of 8 bytes. Bytes between parts belong to nobody:
// write_padding() once an observation, or they are whatever was there.
template <typename T>
std::span<T> part_of(std::span<std::byte> obs, const SpacePart& part) {
  return {reinterpret_cast<T*>(obs.data() + part.offset), part.bytes() / sizeof(T)};
}
void write_padding(std::span<std::byte> obs, const std::vector<SpacePart>& parts);  // zeros

}  // namespace parl
