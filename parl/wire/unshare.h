// After a value has travelled within one process, sender and receiver must share no mutable memory. Copies of ordinary
// values share none. A type whose copies do (a tensor) declares Wire<T>::deep_copy; unshare() walks a value to every
// such part and replaces it. Types without such parts cost nothing.
#pragma once

#include "parl/wire/wire.h"

namespace parl::wire {

template <typename T>
inline constexpr bool kIsShallow = requires(const T& value) {
  Wire<T>::deep_copy(value);
};

template <typename T>
void unshare(T& value);

namespace internal {

template <typename T, typename... Open>
struct Shallow {
  static constexpr bool check() {
    if constexpr ((std::is_same_v<T, Open> || ...))
      return false;
    else if constexpr (kIsShallow<T>)
      return true;
    else if constexpr (HasFields<T>)
      return fields(parl_fields(std::type_identity<T>{}));
    else
      return false;
  }
  template <typename... M>
  static constexpr bool fields(const std::tuple<Field<T, M>...>&) {
    return (Shallow<M, T, Open...>::value || ...);
  }
  static constexpr bool value = check();
};
template <template <typename...> class C, typename... T, typename... Open>
struct Shallow<C<T...>, Open...> {
  // A container or tuple: shallow when a part is (or when it declares so itself).
  static constexpr bool check() {
    if constexpr ((std::is_same_v<C<T...>, Open> || ...))
      return false;
    else if constexpr (kIsShallow<C<T...>>)
      return true;
    else if constexpr (HasFields<C<T...>>)
      return fields(parl_fields(std::type_identity<C<T...>>{}));
    else
      return (Shallow<T, Open...>::value || ...);
  }
  template <typename... M>
  static constexpr bool fields(const std::tuple<Field<C<T...>, M>...>&) {
    return (Shallow<M, C<T...>, Open...>::value || ...);
  }
  static constexpr bool value = check();
};
template <typename T, size_t N, typename... Open>
struct Shallow<std::array<T, N>, Open...> : Shallow<T, Open...> {};

template <typename T>
void unshare_parts(T& value) {
  if constexpr (HasFields<T>) {
    for_each_field(value, [](const char*, auto& member, const char*) { unshare(member); });
  } else if constexpr (requires {
                         std::tuple_size<T>::value;
                         value.begin();
                       }) {  // std::array
    for (auto& item : value) unshare(item);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([](auto&... item) { (unshare(item), ...); }, value);
  } else if constexpr (requires { typename T::mapped_type; }) {
    for (auto& [key, item] : value) unshare(item);
  } else if constexpr (requires { value.push_back(*value.begin()); }) {
    for (auto& item : value) unshare(item);
  } else if constexpr (requires { value.valueless_by_exception(); }) {
    std::visit([](auto& item) { unshare(item); }, value);
  } else if constexpr (requires {
                         *value;
                         static_cast<bool>(value);
                       }) {  // optional, unique_ptr
    if (value) unshare(*value);
  }
}

}  // namespace internal

template <typename T>
inline constexpr bool kNeedsUnshare = internal::Shallow<T>::value;

template <typename T>
void unshare(T& value) {
  if constexpr (kIsShallow<T>) {
    value = Wire<T>::deep_copy(value);
  } else if constexpr (kNeedsUnshare<T>) {
    internal::unshare_parts(value);
  }
}

}  // namespace parl::wire
