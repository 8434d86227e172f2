// Remote<T>: the handle of a remote object, used like a unique_ptr<T>.
//
//   greeter->sum(2, 3)             blocks for the value, or throws RemoteError
//   greeter.async()->sum(2, 3)     Future<int>; waits only while the object's mailbox is full
//   greeter.try_async()->sum(2, 3) optional<Future<int>>: empty instead of waiting
//   greeter.within(5s)->sum(2, 3)  like ->, but throws `timeout` after 5 s; the late result is dropped
//
// Arguments travel by value: an rvalue is moved, an lvalue copied; afterwards caller and object share no memory.
// The destructor says goodbye: the calls accepted so far still run, then the object ends; it does not wait.
// Thread rule: move-only; calls may be made from several threads. Moving, closing and destroying belong to one owner.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parl/remote/internal/stub.h"
#include "parl/remote/modifier.h"

namespace parl {

template <typename T>
class Remote {
  static_assert(internal::Described<T>, "Remote<T>: T has no PARL_REMOTE_CLASS line (a derived class needs its own)");

 public:
  Remote() = default;
  explicit Remote(std::shared_ptr<internal::RemoteObject> object) : object_(std::move(object)) {}
  Remote(Remote&&) noexcept = default;
  Remote& operator=(Remote&&) noexcept = default;

  auto operator->() const {
    return internal::Arrow<internal::Stub<T, internal::SyncMode>>(internal::SyncMode{raw(), {}});
  }
  auto async() const { return internal::Arrow<internal::Stub<T, internal::AsyncMode>>(internal::AsyncMode{raw()}); }
  auto try_async() const {
    return internal::Arrow<internal::Stub<T, internal::TryAsyncMode>>(internal::TryAsyncMode{raw()});
  }
  auto within(std::chrono::nanoseconds timeout) const {
    return internal::Arrow<internal::Stub<T, internal::SyncMode>>(internal::SyncMode{raw(), timeout});
  }

  explicit operator bool() const { return object_ != nullptr; }
  // Goodbye, and waits until the object is gone (its destructor has run). False: not within `timeout`.
  bool close(std::chrono::nanoseconds timeout = std::chrono::seconds(10)) { return raw()->close(timeout); }
  // Goodbye without waiting; the handle is empty afterwards.
  void reset() { object_.reset(); }

  // How often the object was built again after a loss (Place::max_restarts).
  int generation() const { return raw()->generation(); }
  // `hook` runs after each re-creation, on the thread whose call caused it, before that call; to send weights.
  void on_restart(std::function<void(Remote<T>&)> hook) {
    internal::RemoteObject* object = raw();
    object->set_on_restart([weak = std::weak_ptr(object_), hook = std::move(hook)] {
      if (auto alive = weak.lock()) {
        Remote<T> handle(std::move(alive));
        hook(handle);
      }
    });
  }
  // The object's process or connection ended under it. With restarts left, the next call builds it again.
  bool lost() const { return raw()->lost(); }
  std::string name() const { return raw()->channel()->label(); }
  int index() const { return raw()->channel()->placement().index; }
  int64_t pid() const { return raw()->channel()->pid(); }

  const std::shared_ptr<internal::RemoteObject>& object() const { return object_; }

 private:
  internal::RemoteObject* raw() const {
    if (!object_) [[unlikely]]
      internal::throw_remote(RemoteErrorKind::kClosed, "this handle is empty");
    return object_.get();
  }
  std::shared_ptr<internal::RemoteObject> object_;
};

namespace internal {

template <typename T>
const Remote<T>& handle_of(const Remote<T>& r) {
  return r;
}
template <typename P>
auto handle_of(const P& p) -> decltype(handle_of(*p)) {
  return handle_of(*p);
}

template <typename T, typename Method, typename Objects>
auto broadcast_method(const Objects& objects, typename TraitsOf<T, Method>::Arguments arguments) {
  using Result = typename TraitsOf<T, Method>::Result;
  using Broadcast = BroadcastCall<T, Method>;
  auto shared = std::make_shared<typename Broadcast::Shared>(std::move(arguments));
  std::vector<Future<Result>> futures;
  for (const auto& item : objects) {
    Ref<ValueCall<Result>> call = Broadcast::make(shared);
    try {
      PARL_CHECK(handle_of(item), "broadcast: a handle is empty");
      handle_of(item).object()->submit(call.template as<Call>(), kForever);
    } catch (const RemoteError& error) {  // that object's outcome; the others go on
      call->fail(error.failure());
    }
    futures.emplace_back(std::move(call));
  }
  return futures;
}

}  // namespace internal

// Calls one method of many objects with the same arguments, which are encoded once. `objects`: any range of Remote<T>
// or of pointers to them. One future per object; the loss of one does not fail the others.
//   broadcast(actors, &Actor::set_weights, weights)
template <typename Objects, typename Pointer, typename... A>
auto broadcast(const Objects& objects, Pointer method, A&&... arguments) {
  using Item = std::remove_cvref_t<decltype(internal::handle_of(*std::begin(objects)))>;
  return [&]<typename T>(std::type_identity<Remote<T>>) {
    return [&]<typename... M>(internal::TypeList<M...>) {
      using Result = typename internal::MethodTraits<Pointer>::Result;
      std::optional<std::vector<Future<Result>>> out;
      const auto attempt = [&]<typename Method>(std::type_identity<Method>) {
        if constexpr (std::is_same_v<decltype(Method::template pointer<T>()), Pointer>) {
          if (out || Method::template pointer<T>() != method) return;
          out = internal::broadcast_method<T, Method>(
              objects, typename internal::TraitsOf<T, Method>::Arguments(std::forward<A>(arguments)...));
        }
      };
      (attempt(std::type_identity<M>{}), ...);
      PARL_CHECK(out.has_value(), "broadcast: this method is not in the class's PARL_REMOTE_CLASS list");
      return std::move(*out);
    }(typename internal::Description<T>::Methods{});
  }(std::type_identity<Item>{});
}

}  // namespace parl
