// The actor's side of a learner that listens: a program offers an object of its own.
//
//   parl::as_remote(Greeter("bob"), "learner:8037");          // or built in place:
//   parl::as_remote<Greeter>("learner:8037", "bob");
//
// The learner takes it with manager.get_remote<Greeter>(). Calls run on the calling thread, which is the object's;
// as_remote returns when the learner has given its handle back or its manager has ended. A learner that is not there
// yet, or goes without a word, is dialled again; after `patience` without one parl::Error is thrown. The object keeps
// its state meanwhile. The two may be different programs: their descriptions of the class are compared.
// Throws parl::Error: nothing guards the way to another machine (Options::token_file).
// Thread rule: blocks its thread; several threads may offer an object each.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "parl/remote/internal/construction.h"

namespace parl {

namespace internal {
void serve_object(const ClassInfo& info, void* object, const std::string& address, std::chrono::nanoseconds patience);
}  // namespace internal

// The first parameter keeps this one out of as_remote<Greeter>(...).
template <int kDeduced = 0, typename T>
void as_remote(T object, const std::string& address,
               std::chrono::nanoseconds patience = std::chrono::nanoseconds::max()) {
  static_assert(kDeduced == 0);
  static_assert(internal::Described<T>, "as_remote: the object's class has no PARL_REMOTE_CLASS line");
  internal::serve_object(internal::class_info<T>(), &object, address, patience);
}

template <typename T, typename... A>
void as_remote(const std::string& address, A&&... arguments) {
  static_assert(internal::Described<T>, "as_remote: T has no PARL_REMOTE_CLASS line");
  T object(std::forward<A>(arguments)...);
  internal::serve_object(internal::class_info<T>(), &object, address, std::chrono::nanoseconds::max());
}

}  // namespace parl
