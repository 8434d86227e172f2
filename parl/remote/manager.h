// RemoteManager: builds remote objects and owns the engine they live in.
//
//   RemoteManager manager(argc, argv);        // --parl-engine, else PARL_ENGINE, else thread
//   RemoteManager manager("process");         // said by the program: beats both
//   RemoteManager manager(Options{.engine = "process", .slots = 8});
//   RemoteManager manager("tcp://0.0.0.0:8037");   // listens: workers and objects dial in (as_remote.h)
//   auto worker  = manager.create<Worker>(args...);
//   auto worker  = manager.create<Worker>(Place{.name = "left", .cores = {0, 1}}, args...);
//   auto workers = manager.create_all<Worker>(16, args...);      // starts overlap
//   auto workers = manager.create_each<Worker>(16, [&](int i) { return configs[i]; });
//   auto worker  = manager.get_remote<Worker>();                 // tcp: one that another program offers by as_remote
//
// create() blocks until the constructor has returned, at most Place::timeout (default 60 s, which includes waiting for
// a free slot). It throws RemoteError: what the constructor threw, `refused` (no slot; called inside a remote object),
// `timeout`, `lost`. The destructor ends every object: pending futures and later calls get `closed`.
// Thread rule: create from any thread; several managers live side by side.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parl/remote/handle.h"
#include "parl/remote/internal/construction.h"
#include "parl/remote/options.h"
#include "parl/remote/place.h"
#include "parl/remote/stats.h"
#include "parl/remote/status.h"

namespace parl {

class RemoteManager {
 public:
  RemoteManager();
  RemoteManager(int& argc, char** argv);
  explicit RemoteManager(const std::string& engine);
  explicit RemoteManager(Options options);
  ~RemoteManager();
  RemoteManager(const RemoteManager&) = delete;
  RemoteManager& operator=(const RemoteManager&) = delete;

  template <typename T, typename... A>
  Remote<T> create(Place place, A&&... args) {
    return build<T>(std::move(place), core_->reserve(1), std::forward<A>(args)...);
  }
  template <typename T, typename... A>
  requires(sizeof...(A) == 0 || !(std::is_same_v<std::decay_t<A>, Place> || ...)) Remote<T> create(A&&... args) {
    return build<T>(Place{}, core_->reserve(1), std::forward<A>(args)...);
  }

  // n objects built with copies of the same arguments; placement().index tells them apart. A failure ends them all.
  template <typename T, typename... A>
  std::vector<Remote<T>> create_all(int n, Place place, const A&... args) {
    return build_all<T>(n, [&](int index, int i) {
      Place own = place;
      if (!own.name.empty()) own.name += "-" + std::to_string(i);
      return build<T>(std::move(own), index, args...);
    });
  }
  template <typename T, typename... A>
  requires(sizeof...(A) == 0 || !(std::is_same_v<std::decay_t<A>, Place> ||
                                  ...)) std::vector<Remote<T>> create_all(int n, const A&... args) {
    return create_all<T>(n, Place{}, args...);
  }

  // Takes an object that another program made and offers with parl::as_remote; waits for one as create() waits for a
  // slot. Each is given out once. The handle's end lets that program's as_remote return.
  template <typename T>
  Remote<T> get_remote(Place place = {}) {
    return Remote<T>(core_->take(internal::class_info<T>(), std::move(place), core_->reserve(1)));
  }

  // The same, each object built with an argument of its own: argument_of(0), ..., argument_of(n - 1).
  template <typename T, typename F>
  std::vector<Remote<T>> create_each(int n, F&& argument_of) {
    return build_all<T>(n, [&](int index, int i) { return build<T>(Place{}, index, argument_of(i)); });
  }

  // Ends every object as the destructor does, waiting at most `timeout`.
  void close(std::chrono::nanoseconds timeout);

  // As given; for tcp with the port that it listens on.
  const std::string& engine() const { return core_->options().engine; }
  const Options& options() const { return core_->options(); }
  RemoteSlots slots() const { return core_->slots(); }
  RemoteStats stats() const { return core_->stats(); }
  ManagerStatus status() const { return core_->status(); }

 private:
  template <typename T, typename... A>
  Remote<T> build(Place place, int index, A&&... args) {
    return Remote<T>(core_->create(internal::class_info<T>(),
                                   internal::make_constructor_call<T>(std::forward<A>(args)...), std::move(place),
                                   index));
  }
  template <typename T, typename F>
  std::vector<Remote<T>> build_all(int n, F&& build_one) {
    std::vector<Remote<T>> objects(static_cast<size_t>(n));
    const int first = core_->reserve(n);
    core_->overlap(n, [&](int i) { objects[static_cast<size_t>(i)] = build_one(first + i, i); });
    return objects;
  }
  std::shared_ptr<internal::ManagerCore> core_;
};

namespace internal {
template <typename Signature>
struct Offer;
template <typename T, typename... A>
struct Offer<T(A...)> {
  static bool enter() {
    return check_construction<T, Travelling<A>...>() && Constructor<T, Travelling<A>...>::kEntered;
  }
};
}  // namespace internal

// For a program that shall build T for others without ever calling create<T> itself:
//   parl::offer<Greeter(std::string)>();      // in main
template <typename Signature>
void offer() {
  internal::Offer<Signature>::enter();
}

}  // namespace parl
