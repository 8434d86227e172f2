// Roughly how many bytes a value keeps: what back-pressure counts. Cheap: bulk payloads by size, containers item by
// item.
#pragma once

#include "parl/wire/versioned.h"
#include "parl/wire/wire.h"

namespace parl::wire {

template <typename T>
size_t footprint(const T& value) {
  if constexpr (std::is_same_v<T, Array>) {
    return sizeof(T) + value.bytes();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return sizeof(T) + value.size();
  } else if constexpr (HasFields<T>) {
    size_t sum = 0;
    for_each_field(value, [&](const char*, const auto& member, const char*) { sum += footprint(member); });
    return sum;
  } else if constexpr (requires {
                         typename T::value_type;
                         value.begin();
                         value.size();
                       }) {
    using Item = typename T::value_type;
    if constexpr (std::is_arithmetic_v<Item> || std::is_enum_v<Item>) {
      return sizeof(T) + value.size() * sizeof(Item);
    } else {
      size_t sum = sizeof(T);
      for (const auto& item : value) sum += footprint(item);
      return sum;
    }
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::apply([](const auto&... item) { return (size_t{0} + ... + footprint(item)); }, value);
  } else if constexpr (requires { value.valueless_by_exception(); }) {
    return value.valueless_by_exception() ? sizeof(T)
                                          : std::visit([](const auto& item) { return footprint(item); }, value);
  } else if constexpr (requires { value.shared(); }) {  // Versioned: the value is shared by all calls
    return sizeof(T);
  } else if constexpr (requires {
                         *value;
                         static_cast<bool>(value);
                       }) {
    return sizeof(T) + (value ? footprint(*value) : 0);
  } else {
    return sizeof(T);
  }
}

}  // namespace parl::wire
