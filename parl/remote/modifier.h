// The modifier. One line below a class makes it remote:
//
//   class Greeter { public: explicit Greeter(std::string name); std::string say_hello(const std::string& to); ... };
//   PARL_REMOTE_CLASS(Greeter, say_hello, sum);
//
// It stands at namespace scope, in the class's namespace, and names the methods that can be called from afar: public,
// non-static, not overloaded, with parameters and results that can travel (parl/wire/wire.h). The class itself stays
// ordinary. A derived class needs a line of its own; it may list inherited methods. A class template: through an alias.
// Default arguments are not carried. Another class of the same name in the program:
//   PARL_REMOTE_CLASS_AS("team.Worker", Worker, run);
#pragma once

#include "parl/core/fields.h"
#include "parl/remote/internal/signature.h"

#define PARL_REMOTE_CLASS(Class, ...) PARL_REMOTE_CLASS_AS(#Class, Class __VA_OPT__(, ) __VA_ARGS__)

#define PARL_REMOTE_CLASS_AS(name, Class, ...)                                                                 \
  static_assert(::parl::internal::is_plain_name(#Class),                                                       \
                "PARL_REMOTE_CLASS: write the class's plain name, without '::' or '<'; put the line into its " \
                "namespace, and give a class template an alias");                                              \
  struct ParlRemote_##Class {                                                                                  \
    static constexpr const char* kName = name;                                                                 \
    static constexpr const char* kFile = __FILE__;                                                             \
    static constexpr int kLine = __LINE__;                                                                     \
    PARL_REMOTE_EACH_(PARL_REMOTE_METHOD_, __VA_ARGS__)                                                        \
    using Methods = ::parl::internal::TypeList<PARL_FOR_EACH(PARL_REMOTE_METHOD_NAME_, Class, __VA_ARGS__)>;   \
  };                                                                                                           \
  [[maybe_unused]] constexpr ParlRemote_##Class parl_remote(::std::type_identity<Class>) { return {}; }        \
  static_assert(::parl::internal::check_methods<Class>(ParlRemote_##Class::Methods{}), "PARL_REMOTE_CLASS: see above")

#define PARL_REMOTE_METHOD_NAME_(Class, method) Method_##method

// The listed name, as it can be used from templates: what kind of member it is, its pointer, and a stub that has a
// member function of that name with the method's own parameter types.
#define PARL_REMOTE_METHOD_(method)                                                                        \
  struct Method_##method {                                                                                 \
    static constexpr const char* kName = #method;                                                          \
    struct Named {                                                                                         \
      int method;                                                                                          \
    };                                                                                                     \
    template <typename X>                                                                                  \
    struct Probe : X, Named {};                                                                            \
    template <typename X>                                                                                  \
    static constexpr ::parl::internal::MethodKind kind() {                                                 \
      using ::parl::internal::Anything;                                                                    \
      using ::parl::internal::MethodKind;                                                                  \
      if constexpr (requires { &X::method; }) {                                                            \
        return ::parl::internal::MethodTraits<decltype(&X::method)>::kKind;                                \
      } else if constexpr (!::std::is_final_v<X> && requires { &Probe<X>::method; }) {                     \
        return MethodKind::kAbsent;                                                                        \
      } else if constexpr (                                                                                \
          requires { &X::template method<int>; } || requires { &X::template method<0>; } ||                \
          requires { &X::template method<int, int>; }) {                                                   \
        return MethodKind::kTemplate;                                                                      \
      } else if constexpr (                                                                                \
          requires(X & x, Anything a) { x.method(); } || requires(X & x, Anything a) { x.method(a); } ||   \
          requires(X & x, int a) { x.method(a); } || requires(X & x, ::std::string a) { x.method(a); } ||  \
          requires(X & x, Anything a) { x.method(a, a); } || requires(X & x, int a) { x.method(a, a); } || \
          requires(X & x, Anything a) { x.method(a, a, a); }) {                                            \
        return MethodKind::kOverloaded;                                                                    \
      } else {                                                                                             \
        return MethodKind::kHidden;                                                                        \
      }                                                                                                    \
    }                                                                                                      \
    template <typename X>                                                                                  \
    static constexpr auto pointer() {                                                                      \
      return &X::method;                                                                                   \
    }                                                                                                      \
    template <typename Stub, typename Mode, typename Signature>                                            \
    struct Caller;                                                                                         \
    template <typename Stub, typename Mode, typename R, typename... A>                                     \
    struct Caller<Stub, Mode, R(A...)> {                                                                   \
      typename Mode::template ResultOf<R> method(A... a) const {                                           \
        return static_cast<const Stub*>(this)->template parl_call_<Method_##method>(::std::move(a)...);    \
      }                                                                                                    \
    };                                                                                                     \
  };

// PARL_FOR_EACH without commas between the results.
#define PARL_REMOTE_EACH_(macro, ...) __VA_OPT__(PARL_EXPAND(PARL_REMOTE_EACH_STEP_(macro, __VA_ARGS__)))
#define PARL_REMOTE_EACH_STEP_(macro, item, ...) \
  macro(item) __VA_OPT__(PARL_REMOTE_EACH_AGAIN_ PARL_PARENS(macro, __VA_ARGS__))
#define PARL_REMOTE_EACH_AGAIN_() PARL_REMOTE_EACH_STEP_
