// Calls with types: arguments as a tuple, result as a value; and the tables of a class for the far side.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>

#include "parl/remote/internal/call.h"
#include "parl/remote/internal/class_info.h"
#include "parl/remote/internal/signature.h"
#include "parl/wire/footprint.h"
#include "parl/wire/unshare.h"

namespace parl::internal {

template <typename X>
using Description = decltype(parl_remote(std::type_identity<X>{}));

template <typename X, typename Method>
using TraitsOf = MethodTraits<decltype(Method::template pointer<X>())>;

template <typename X>
const ClassInfo& class_info();

// Position of Method in the class's list.
template <typename Method, typename... All>
constexpr uint32_t index_of(TypeList<All...>) {
  uint32_t i = 0;
  (void)((std::is_same_v<Method, All> ? true : (++i, false)) || ...);
  return i;
}

struct Nothing {};

// A call whose outcome is an R.
template <typename R>
class ValueCall : public Call {
 public:
  using Call::Call;
  // After settle(); once.
  R take() {
    if constexpr (!std::is_void_v<R>) return std::move(*value_);
  }

 protected:
  void decode(Reader& reader) override {
    if constexpr (std::is_void_v<R>) {
      (void)reader;
    } else {
      value_.emplace(wire::load<R>(reader));
    }
  }
  // Calls f() for the value, and completes with it or with what it throws.
  template <typename F>
  void run_and_complete(F&& f) noexcept {
    try {
      if constexpr (std::is_void_v<R>) {
        f();
      } else {
        value_.emplace(f());
        wire::unshare(*value_);
      }
    } catch (...) {
      fail(describe_current_exception());
      return;
    }
    complete_local();
  }

 private:
  std::optional<std::conditional_t<std::is_void_v<R>, Nothing, R>> value_;
};

// An argument as its parameter wants it: `const T&` binds to the travelling value, all else takes it.
template <typename Parameter, typename T>
decltype(auto) hand_over(T& argument) {
  if constexpr (std::is_lvalue_reference_v<Parameter>) {
    return static_cast<const T&>(argument);
  } else {
    return static_cast<T&&>(argument);
  }
}

template <typename X, typename Method, typename Arguments, typename... P, size_t... I>
decltype(auto) invoke_method(void* object, Arguments& arguments, TypeList<P...>, std::index_sequence<I...>) {
  return (static_cast<X*>(object)->*Method::template pointer<X>())(hand_over<P>(std::get<I>(arguments))...);
}

template <typename X, typename Method, typename Arguments>
decltype(auto) invoke_method(void* object, Arguments& arguments) {
  return invoke_method<X, Method>(object, arguments, typename TraitsOf<X, Method>::Parameters{},
                                  std::make_index_sequence<std::tuple_size_v<Arguments>>{});
}

template <typename X, typename Method>
class MethodCall final : public ValueCall<typename TraitsOf<X, Method>::Result> {
 public:
  using Traits = TraitsOf<X, Method>;
  using Arguments = typename Traits::Arguments;

  template <typename... A>
  static Ref<MethodCall> make(A&&... a) {
    return Ref<MethodCall>::adopt(new MethodCall(Arguments(std::forward<A>(a)...)));
  }
  void run(void* object) noexcept override {
    this->run_and_complete([&]() -> decltype(auto) {
      Arguments arguments = std::move(*arguments_);
      arguments_.reset();
      return invoke_method<X, Method>(object, arguments);
    });
  }
  void encode(Writer& writer) override { wire::save(writer, *arguments_); }
  void drop_arguments() noexcept override { arguments_.reset(); }

 private:
  static constexpr uint32_t kIndex = index_of<Method>(typename Description<X>::Methods{});
  explicit MethodCall(Arguments arguments)
      : ValueCall<typename Traits::Result>(&class_info<X>().methods[kIndex], kIndex, wire::footprint(arguments)),
        arguments_(std::move(arguments)) {
    wire::unshare(*arguments_);
  }
  std::optional<Arguments> arguments_;
};

// Arguments that several calls share: encoded once, copied by those that run here.
template <typename Arguments>
class SharedArguments {
 public:
  explicit SharedArguments(Arguments arguments) : values(std::move(arguments)) { wire::unshare(values); }
  void encode(Writer& writer) {
    std::call_once(once_, [&] { wire::save(encoded_, values); });
    if (encoded_.has_versioned()) {
      writer.set_sharing(true);
      wire::save(writer, values);  // depends on what the peer has
      writer.set_sharing(false);
    } else {
      writer.append(encoded_);
    }
  }
  const Arguments values;

 private:
  std::once_flag once_;
  Writer encoded_;
};

template <typename X, typename Method>
class BroadcastCall final : public ValueCall<typename TraitsOf<X, Method>::Result> {
 public:
  using Traits = TraitsOf<X, Method>;
  using Arguments = typename Traits::Arguments;
  using Shared = SharedArguments<Arguments>;

  static Ref<BroadcastCall> make(std::shared_ptr<Shared> shared) {
    return Ref<BroadcastCall>::adopt(new BroadcastCall(std::move(shared)));
  }
  void run(void* object) noexcept override {
    this->run_and_complete([&]() -> decltype(auto) {
      Arguments arguments = shared_->values;
      wire::unshare(arguments);
      shared_.reset();
      return invoke_method<X, Method>(object, arguments);
    });
  }
  void encode(Writer& writer) override {
    shared_->encode(writer);
    writer.keep(shared_);
  }
  void drop_arguments() noexcept override { shared_.reset(); }

 private:
  static constexpr uint32_t kIndex = index_of<Method>(typename Description<X>::Methods{});
  explicit BroadcastCall(std::shared_ptr<Shared> shared)
      : ValueCall<typename Traits::Result>(&class_info<X>().methods[kIndex], kIndex, wire::footprint(shared->values)),
        shared_(std::move(shared)) {}
  std::shared_ptr<Shared> shared_;
};

// ---- the far side ----

template <typename Arguments>
Arguments decode_arguments(Reader& reader) {
  try {
    Arguments arguments = wire::load<Arguments>(reader);
    reader.finish();
    return arguments;
  } catch (...) {
    rethrow_as_coding("the arguments");
  }
}

template <typename R>
void encode_result(Writer& writer, R result) {
  try {
    if constexpr (std::is_arithmetic_v<R> || std::is_enum_v<R>) {
      wire::save(writer, result);
    } else {
      auto kept = std::make_shared<R>(std::move(result));  // not const: arrays may be moved into the message
      wire::save(writer, *kept);
      if (!writer.attachments().empty()) writer.keep(std::move(kept));
    }
  } catch (...) {
    rethrow_as_coding("the result");
  }
}

template <typename X, typename Method>
void invoke_wire(void* object, Reader& reader, Writer& writer) {
  using Traits = TraitsOf<X, Method>;
  auto arguments = decode_arguments<typename Traits::Arguments>(reader);
  if constexpr (std::is_void_v<typename Traits::Result>) {
    invoke_method<X, Method>(object, arguments);
  } else {
    encode_result<typename Traits::Result>(writer, invoke_method<X, Method>(object, arguments));
  }
}

template <typename X, typename Method>
void skip_wire(Reader& reader) {
  decode_arguments<typename TraitsOf<X, Method>::Arguments>(reader);
}

template <typename X, typename... Method>
ClassInfo make_class_info(TypeList<Method...>) {
  using D = Description<X>;
  return ClassInfo{D::kName,
                   demangle(typeid(X).name()),
                   std::string(D::kFile) + ":" + std::to_string(D::kLine),
                   {MethodInfo{Method::kName,
                               wire::schema<typename TraitsOf<X, Method>::Arguments>() + "->" +
                                   wire::schema<typename TraitsOf<X, Method>::Result>(),
                               &invoke_wire<X, Method>, &skip_wire<X, Method>}...},
                   [](void* object) { delete static_cast<X*>(object); }};
}

template <typename X>
const ClassInfo& class_info() {
  // Never destroyed: a thread left in user code may still look at it while the program ends.
  static const ClassInfo& info = *new ClassInfo(make_class_info<X>(typename Description<X>::Methods{}));
  return info;
}

}  // namespace parl::internal
