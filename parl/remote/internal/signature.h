// What the modifier finds out about a listed method, and the plain messages for what cannot be listed.
#pragma once

#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "parl/wire/wire.h"

namespace parl {

template <typename T>
class Remote;
template <typename R>
class Future;

namespace internal {

enum class MethodKind {
  kGood,
  kRvalueQualified,
  kData,
  kStatic,
  kOverloaded,
  kTemplate,
  kHidden,
  kAbsent,
  kUnsupported
};

template <typename... T>
struct TypeList {
  static constexpr size_t kSize = sizeof...(T);
};

template <typename P>
struct MethodTraits {
  static constexpr MethodKind kKind = std::is_member_object_pointer_v<P> ? MethodKind::kData
                                      : std::is_pointer_v<P>             ? MethodKind::kStatic
                                                                         : MethodKind::kUnsupported;
};

template <MethodKind Kind, typename R, typename... A>
struct GoodTraits {
  static constexpr MethodKind kKind = Kind;
  using Result = std::decay_t<R>;                    // what the caller gets
  using Arguments = std::tuple<std::decay_t<A>...>;  // what travels
  using Parameters = TypeList<A...>;
  using Signature = Result(std::decay_t<A>...);
};

#define PARL_METHOD_TRAITS_(qualifiers, kind)      \
  template <typename C, typename R, typename... A> \
  struct MethodTraits<R (C::*)(A...) qualifiers> : GoodTraits<MethodKind::kind, R, A...> {};
PARL_METHOD_TRAITS_(, kGood)
PARL_METHOD_TRAITS_(const, kGood)
PARL_METHOD_TRAITS_(&, kGood)
PARL_METHOD_TRAITS_(const&, kGood)
PARL_METHOD_TRAITS_(noexcept, kGood)
PARL_METHOD_TRAITS_(const noexcept, kGood)
PARL_METHOD_TRAITS_(&noexcept, kGood)
PARL_METHOD_TRAITS_(const& noexcept, kGood)
PARL_METHOD_TRAITS_(&&, kRvalueQualified)
PARL_METHOD_TRAITS_(const&&, kRvalueQualified)
PARL_METHOD_TRAITS_(&&noexcept, kRvalueQualified)
PARL_METHOD_TRAITS_(const&& noexcept, kRvalueQualified)
#undef PARL_METHOD_TRAITS_

// Converts to anything, for asking whether something can be called at all.
struct Anything {
  template <typename T>
  operator T() const;  // NOLINT
};

// ---- messages ----

constexpr bool is_plain_name(std::string_view name) {
  return name.find(':') == name.npos && name.find('<') == name.npos;
}

template <typename T>
inline constexpr bool kIsHandle = false;
template <typename T>
inline constexpr bool kIsHandle<Remote<T>> = true;
template <typename T>
inline constexpr bool kIsHandle<Future<T>> = true;

template <typename T>
inline constexpr bool kIsMutableReference =
    std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>;

template <typename Parameter>
constexpr bool check_parameter() {
  using T = std::decay_t<Parameter>;
  static_assert(!kIsMutableReference<Parameter>,
                "PARL_REMOTE_CLASS: a parameter of this method is a non-const reference, which would not reach back to "
                "the caller; "
                "return the value instead");
  static_assert(!kIsHandle<T>, "PARL_REMOTE_CLASS: remote handles and futures cannot be arguments or results");
  static_assert(kIsMutableReference<Parameter> || kIsHandle<T> || Serialisable<T>,
                "PARL_REMOTE_CLASS: a parameter of this method cannot travel: pointers, views, shared_ptr and "
                "functions never do; a "
                "class needs a PARL_FIELDS list (parl/core/fields.h) or a parl::Wire of its own");
  return true;
}

template <typename Result>
constexpr bool check_result() {
  if constexpr (!std::is_void_v<Result>) {
    static_assert(!kIsHandle<Result>, "PARL_REMOTE_CLASS: remote handles and futures cannot be arguments or results");
    static_assert(kIsHandle<Result> || Serialisable<Result>,
                  "PARL_REMOTE_CLASS: the result of this method cannot travel: pointers, views, shared_ptr and "
                  "functions never do; a "
                  "class needs a PARL_FIELDS list (parl/core/fields.h) or a parl::Wire of its own");
  }
  return true;
}

template <typename... P>
constexpr bool check_parameters(TypeList<P...>) {
  return (check_parameter<P>() && ...);
}

// One listed method of class X.
template <typename X, typename Method>
constexpr bool check_method() {
  constexpr MethodKind kind = Method::template kind<X>();
  static_assert(kind != MethodKind::kAbsent, "PARL_REMOTE_CLASS: the class has no method of this name");
  static_assert(kind != MethodKind::kHidden,
                "PARL_REMOTE_CLASS: this method is private or protected; list public ones");
  static_assert(kind != MethodKind::kOverloaded,
                "PARL_REMOTE_CLASS: this method is overloaded; give it a name of its own");
  static_assert(kind != MethodKind::kTemplate,
                "PARL_REMOTE_CLASS: this method is a template; list methods with fixed types");
  static_assert(kind != MethodKind::kStatic, "PARL_REMOTE_CLASS: this method is static and belongs to no object");
  static_assert(kind != MethodKind::kData, "PARL_REMOTE_CLASS: this is a data member; list a getter");
  static_assert(kind != MethodKind::kRvalueQualified,
                "PARL_REMOTE_CLASS: this method is &&-qualified: it wants an object that ends");
  static_assert(kind != MethodKind::kUnsupported,
                "PARL_REMOTE_CLASS: this method has a form that cannot be listed (volatile, C varargs)");
  if constexpr (kind == MethodKind::kGood) {
    using Traits = MethodTraits<decltype(Method::template pointer<X>())>;
    return check_parameters(typename Traits::Parameters{}) && check_result<typename Traits::Result>();
  }
  return false;
}

template <typename X, typename... Method>
constexpr bool check_methods(TypeList<Method...>) {
  static_assert(std::is_class_v<X>, "PARL_REMOTE_CLASS: this is not a class");
  return (check_method<X, Method>() && ...);
}

template <typename T>
concept Described = requires {
  parl_remote(std::type_identity<T>{});
};

}  // namespace internal
}  // namespace parl
