// Bytes of an environment's state: what save_state() writes and load_state() reads back, on the same kind of machine.
//
//   StateWriter out;                 StateReader in(bytes);
//   out.put(steps_);                 in.get(steps_);
//   out.put_bytes(frame_);           in.get_bytes(frame_);      // the size must agree
//   return out.take();               in.finish();               // nothing may be left over
//
// put/get take trivially copyable values. Reading past the end, a block of another size or bytes left over throw: the
// state is of another environment or version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "parl/core/check.h"

namespace parl {

class StateWriter {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof(T));
  }
  void put_bytes(std::span<const std::byte> block) {
    put(static_cast<uint64_t>(block.size()));
    bytes_.insert(bytes_.end(), block.begin(), block.end());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class StateReader {
 public:
  explicit StateReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void get(T& value) { std::memcpy(&value, next(sizeof(T)).data(), sizeof(T)); }
  // A block of any size, as a view into the bytes given.
  std::span<const std::byte> block() {
    uint64_t size = 0;
    get(size);
    return next(size);
  }
  void get_bytes(std::span<std::byte> into) {
    const auto from = block();
    PARL_CHECK_EQ(from.size(), into.size(), "this state belongs to an environment with other settings");
    if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
  }
  void finish() const {
    PARL_CHECK(bytes_.empty(), "{} bytes left over: this state belongs to another environment", bytes_.size());
  }

 private:
  std::span<const std::byte> next(uint64_t size) {
    PARL_CHECK_LE(size, bytes_.size(), "the state ends too early: it belongs to another environment");
    const auto part = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return part;
  }
  std::span<const std::byte> bytes_;
};

}  // namespace parl
