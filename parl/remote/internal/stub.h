// Stubs: objects with one member function per listed method, in the method's own parameter types. One stub template;
// its Mode says what becomes of a call.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "parl/remote/future.h"
#include "parl/remote/internal/manager_core.h"
#include "parl/remote/internal/typed_call.h"

namespace parl::internal {

// Blocks for the value; with a timeout: until it has passed.
struct SyncMode {
  template <typename R>
  using ResultOf = R;
  RemoteObject* object;
  std::optional<std::chrono::nanoseconds> timeout;

  template <typename R>
  R pass(Ref<ValueCall<R>> call) const {
    ValueCall<R>& outcome = *call;
    const CallRef shared = std::move(call);
    object->call_and_wait(shared, timeout ? deadline_in(*timeout) : kForever);
    outcome.settle();
    return outcome.take();
  }
};

struct AsyncMode {
  template <typename R>
  using ResultOf = Future<R>;
  RemoteObject* object;

  template <typename R>
  Future<R> pass(Ref<ValueCall<R>> call) const {
    object->submit(call.template as<Call>(), kForever);
    return Future<R>(std::move(call));
  }
};

struct TryAsyncMode {
  template <typename R>
  using ResultOf = std::optional<Future<R>>;
  RemoteObject* object;

  template <typename R>
  std::optional<Future<R>> pass(Ref<ValueCall<R>> call) const {
    if (!object->submit(call.template as<Call>(), kNoWait)) return std::nullopt;
    return Future<R>(std::move(call));
  }
};

template <typename X, typename Mode, typename Methods = typename Description<X>::Methods>
class Stub;

template <typename X, typename Mode, typename... Method>
class Stub<X, Mode, TypeList<Method...>> : public Method::template Caller<Stub<X, Mode, TypeList<Method...>>, Mode,
                                                                          typename TraitsOf<X, Method>::Signature>... {
 public:
  explicit Stub(Mode mode) : mode_(mode) {}

  template <typename M, typename... A>
  auto parl_call_(A&&... a) const {
    using Result = typename TraitsOf<X, M>::Result;
    return mode_.template pass<Result>(MethodCall<X, M>::make(std::forward<A>(a)...));
  }

 private:
  Mode mode_;
};

// What operator-> gives: lives to the end of the expression.
template <typename S>
class Arrow {
 public:
  template <typename Mode>
  explicit Arrow(Mode mode) : stub_(mode) {}
  const S* operator->() const { return &stub_; }

 private:
  S stub_;
};

}  // namespace parl::internal
