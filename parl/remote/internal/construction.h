// Constructors across the wire: create<T>(args...) turns its arguments into values that travel, and by being compiled
// enters T and this constructor into the program's factory table.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "parl/remote/internal/engine.h"
#include "parl/remote/internal/typed_call.h"

namespace parl::internal {

// Text of any kind travels as std::string, all else by decayed value.
template <typename A>
struct TravelsAs {
  using D = std::decay_t<A>;
  static constexpr bool kIsText =
      std::is_same_v<D, const char*> || std::is_same_v<D, char*> || std::is_same_v<D, std::string_view>;
  using type = std::conditional_t<kIsText, std::string, D>;
};
template <typename A>
using Travelling = typename TravelsAs<A>::type;

template <typename X, typename... D>
X* construct_from(std::tuple<D...>& arguments) {
  return std::apply([](D&... d) { return new X(std::move(d)...); }, arguments);
}

template <typename X, typename... D>
struct Constructor {
  static void* from_wire(Reader& reader) {
    auto arguments = decode_arguments<std::tuple<D...>>(reader);
    return construct_from<X>(arguments);
  }
  static std::string signature() { return wire::schema<std::tuple<D...>>(); }
  static const ConstructorInfo& info() {
    static const ConstructorInfo& made = *new ConstructorInfo{signature(), &from_wire};
    return made;
  }
  // Used by every create<X>(D...): so it is there wherever such a call is, also out of static libraries.
  inline static const bool kEntered = enter_factory({&class_info<X>, &signature, &from_wire});
};

template <typename X, typename... D>
class TypedConstructorCall final : public ConstructorCall {
 public:
  explicit TypedConstructorCall(std::tuple<D...> arguments) : arguments_(std::move(arguments)) {
    wire::unshare(arguments_);
  }
  const ConstructorInfo& constructor() const override { return Constructor<X, D...>::info(); }
  void* construct() override { return construct_from<X>(arguments_); }
  void encode(Writer& writer) const override { wire::save(writer, arguments_); }

 private:
  std::tuple<D...> arguments_;
};

template <typename X, typename... D>
constexpr bool check_construction() {
  static_assert(Described<X>, "create<T>: T has no PARL_REMOTE_CLASS line (a derived class needs its own)");
  static_assert(!std::is_abstract_v<X>, "create<T>: T is abstract");
  static_assert((!kIsHandle<D> && ...), "create<T>: remote handles and futures cannot be arguments");
  static_assert(((kIsHandle<D> || Serialisable<D>)&&...),
                "create<T>: an argument cannot travel: pointers, views, shared_ptr and functions never do; a class "
                "needs a PARL_FIELDS "
                "list (parl/core/fields.h) or a parl::Wire of its own");
  static_assert(std::is_constructible_v<X, D&&...>, "create<T>: T has no public constructor for these arguments");
  return true;
}

template <typename X, typename... A>
std::shared_ptr<ConstructorCall> make_constructor_call(A&&... a) {
  static_assert(check_construction<X, Travelling<A>...>());
  (void)*static_cast<const volatile bool*>(&Constructor<X, Travelling<A>...>::kEntered);
  return std::make_shared<TypedConstructorCall<X, Travelling<A>...>>(
      std::tuple<Travelling<A>...>(std::forward<A>(a)...));
}

}  // namespace parl::internal
