// What may travel, and how: wire::save(writer, value), wire::load(reader, value), wire::schema<T>().
//
//   type                                   schema
//   bool, integers, float, double          b1 i1 u1 ... i8 u8 f4 f8   (long and size_t are 8 bytes)
//   enum                                   e:i4          std::string                 s
//   vector<T>                              [T            array<T, 3>                 [3]T
//   optional<T>                            ?T            unique_ptr<T>               ^T
//   pair<A, B>, tuple<A, B>                (A,B)         variant<A, B>               |(A,B)
//   map, unordered_map                     <K,V          set, unordered_set          #T
//   parl::Array                            a             class with PARL_FIELDS      {lr:f8,steps:i8}
//   a class inside itself                  @n            (n levels up)
//
// Trivially copyable is not enough: pointers, span, string_view, shared_ptr, functions, handles and futures have no
// schema. A type of your own: PARL_FIELDS, or a specialisation of parl::Wire<T> with static
// `void schema(Schema&)`, `void save(Writer&, const T&)`, `void load(Reader&, T&)` and, where copies of T share memory
// (tensors), `T deep_copy(const T&)`.
// Thread rule: pure functions. load throws WireError; what it had built by then is destroyed.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "parl/core/dtype.h"
#include "parl/core/fields.h"
#include "parl/wire/archive.h"

namespace parl {

template <typename T>
struct Wire;  // no definition: T cannot travel

// Text under construction, with the classes that are open around the current place.
class Schema {
 public:
  std::string text;
  std::vector<const void*> open;
};

namespace wire {

template <typename T>
inline constexpr char kTypeTag = 0;

template <typename T>
void append_schema(Schema& out) {
  Wire<T>::schema(out);
}

template <typename T>
std::string schema() {
  if constexpr (std::is_void_v<T>) {
    return "v";
  } else {
    Schema out;
    append_schema<T>(out);
    return std::move(out.text);
  }
}

template <typename T>
void save(Writer& w, const T& value) {
  Wire<T>::save(w, value);
}

template <typename T>
void load(Reader& r, T& value) {
  Wire<T>::load(r, value);
}

template <typename T>
T load(Reader& r) {
  T value{};
  Wire<T>::load(r, value);
  return value;
}

// ---- which types travel; Open is the list of classes around T, for classes that contain themselves ----

template <typename T, typename... Open>
struct Travels;

template <typename T, typename... Open>
inline constexpr bool kTravels = Travels<T, Open...>::value;

template <typename T>
inline constexpr bool kHasOwnWire = requires(Writer& w, Reader& r, const T& c, T& m, Schema& s) {
  Wire<T>::save(w, c);
  Wire<T>::load(r, m);
  Wire<T>::schema(s);
};

template <typename T>
concept PlainNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, long double> && !std::is_same_v<T, wchar_t> &&
                      !std::is_same_v<T, char8_t> && !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>;

// Contiguous elements whose bytes are their wire form.
template <typename T>
inline constexpr bool kBulk = PlainNumber<T> && !std::is_same_v<T, bool>;

template <typename T>
constexpr DType number_dtype() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::kBool;
  else if constexpr (std::is_floating_point_v<T>)
    return sizeof(T) == 4 ? DType::kF32 : DType::kF64;
  else if constexpr (sizeof(T) == 1)
    return std::is_signed_v<T> ? DType::kI8 : DType::kU8;
  else if constexpr (sizeof(T) == 2)
    return std::is_signed_v<T> ? DType::kI16 : DType::kU16;
  else if constexpr (sizeof(T) == 4)
    return std::is_signed_v<T> ? DType::kI32 : DType::kU32;
  else
    return std::is_signed_v<T> ? DType::kI64 : DType::kU64;
}

}  // namespace wire
}  // namespace parl

#include "parl/wire/internal/wire_types.h"

namespace parl {

// T can travel: every part of it can.
template <typename T>
concept Serialisable = wire::kTravels<T>;

}  // namespace parl
