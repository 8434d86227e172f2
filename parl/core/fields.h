// One list of a class's fields, written once after the class, drives everything that walks over it: the wire (save,
// load, schema), printing, JSON, command-line flags and --help.
//
//   struct Point { double x = 0, y = 0; };
//   PARL_FIELDS(Point, x, y);
//
//   struct Settings { double lr = 1e-3; int actors = 2; };
//   PARL_CONFIG(Settings, (lr, "learning rate"), (actors, "remote actors"));   // the same with a help text per field
//
// The line stands at namespace scope in the class's namespace. Private members are out of reach: make them public or
// use a struct. for_each_field(object, f) calls f(const char* name, member&, const char* help) in the order of the
// list.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

namespace parl {

template <typename Class, typename Member>
struct Field {
  const char* name;
  Member Class::*member;
  const char* help;
};

template <typename T>
concept HasFields = requires {
  parl_fields(std::type_identity<T>{});
};

template <typename T, typename F>
requires HasFields<std::remove_cvref_t<T>>
constexpr void for_each_field(T&& object, F&& f) {
  std::apply([&](const auto&... field) { (f(field.name, object.*(field.member), field.help), ...); },
             parl_fields(std::type_identity<std::remove_cvref_t<T>>{}));
}

}  // namespace parl

// Applies macro(context, item) to every item, comma separated (up to 256).
#define PARL_EXPAND(...) PARL_EXPAND3(PARL_EXPAND3(PARL_EXPAND3(PARL_EXPAND3(__VA_ARGS__))))
#define PARL_EXPAND3(...) PARL_EXPAND2(PARL_EXPAND2(PARL_EXPAND2(PARL_EXPAND2(__VA_ARGS__))))
#define PARL_EXPAND2(...) PARL_EXPAND1(PARL_EXPAND1(PARL_EXPAND1(PARL_EXPAND1(__VA_ARGS__))))
#define PARL_EXPAND1(...) __VA_ARGS__
#define PARL_UNPACK(...) __VA_ARGS__  // not PARL_EXPAND1, which is busy while it walks a list
#define PARL_PARENS ()
#define PARL_FOR_EACH(macro, context, ...) __VA_OPT__(PARL_EXPAND(PARL_FOR_EACH_STEP(macro, context, __VA_ARGS__)))
#define PARL_FOR_EACH_STEP(macro, context, item, ...) \
  macro(context, item) __VA_OPT__(, PARL_FOR_EACH_AGAIN PARL_PARENS(macro, context, __VA_ARGS__))
#define PARL_FOR_EACH_AGAIN() PARL_FOR_EACH_STEP

#define PARL_FIELD_PLAIN_(Type, name) \
  ::parl::Field<Type, decltype(Type::name)> { #name, &Type::name, "" }
#define PARL_FIELD_HELP_(Type, pair) PARL_FIELD_HELP_2_(Type, PARL_UNPACK pair)
#define PARL_FIELD_HELP_2_(Type, ...) PARL_FIELD_HELP_3_(Type, __VA_ARGS__)
#define PARL_FIELD_HELP_3_(Type, name, help) \
  ::parl::Field<Type, decltype(Type::name)> { #name, &Type::name, help }

#define PARL_FIELDS(Type, ...)                                                \
  [[maybe_unused]] constexpr auto parl_fields(::std::type_identity<Type>) {   \
    return ::std::tuple{PARL_FOR_EACH(PARL_FIELD_PLAIN_, Type, __VA_ARGS__)}; \
  }                                                                           \
  static_assert(true, "")
#define PARL_CONFIG(Type, ...)                                               \
  [[maybe_unused]] constexpr auto parl_fields(::std::type_identity<Type>) {  \
    return ::std::tuple{PARL_FOR_EACH(PARL_FIELD_HELP_, Type, __VA_ARGS__)}; \
  }                                                                          \
  static_assert(true, "")
