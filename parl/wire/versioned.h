// Versioned<T>: a value with a version number, for state that many peers need and that changes rarely (weights).
//
// Copies share the value, which nobody can change. As an argument of a remote call it travels once per worker process:
// one that has this very value receives a reference only (VersionSender), and objects of one process share what came.
// In one process nothing is copied at all. Thread rule: like shared_ptr<const T>: T is read by several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "parl/wire/wire.h"

namespace parl {

template <typename T>
class Versioned {
 public:
  Versioned() = default;
  Versioned(int64_t version, T value)
      : version_(version), id_(wire::next_version_id()), value_(std::make_shared<const T>(std::move(value))) {}

  int64_t version() const { return version_; }
  // Throws parl::Error when empty (default-constructed).
  const T& value() const {
    PARL_CHECK(value_ != nullptr, "this Versioned holds no value; give it one: Versioned(version, value)");
    return *value_;
  }
  const T& operator*() const { return value(); }
  const T* operator->() const { return &value(); }
  bool has_value() const { return value_ != nullptr; }
  const std::shared_ptr<const T>& shared() const { return value_; }

 private:
  friend struct Wire<Versioned<T>>;
  int64_t version_ = 0;
  uint64_t id_ = 0;  // of this value, in this process; copies have the same
  std::shared_ptr<const T> value_;
};

template <typename T>
struct Wire<Versioned<T>> {
  static void schema(Schema& out) {
    out.text += 'V';
    wire::append_schema<T>(out);
  }
  static void save(Writer& w, const Versioned<T>& v) {
    w.note_versioned();
    w.number(v.version_);
    if (!v.value_) return w.number(uint64_t{0});
    const auto save_value = [&](Writer& out) {
      const bool before = out.set_sharing(true);
      wire::save<T>(out, *v.value_);
      out.set_sharing(before);
    };
    const VersionSender::Place place =
        w.versions() ? w.versions()->place(v.id_, v.value_, save_value) : VersionSender::Place{v.id_, false};
    w.number(place.key);
    w.number(place.is_there);
    if (!place.is_there) save_value(w);
  }
  static void load(Reader& r, Versioned<T>& v) {
    const auto version = r.number<int64_t>();
    const auto key = r.number<uint64_t>();
    if (key == 0) {
      v = Versioned<T>();
      v.version_ = version;
    } else if (r.number<bool>()) {
      const auto load_value = [](Reader& in) {
        return std::make_shared<const Versioned<T>>(Versioned<T>(0, wire::load<T>(in)));
      };
      const auto known = r.versions() ? r.versions()->find(key, &wire::kTypeTag<T>, load_value) : nullptr;
      if (!known) r.fail("a versioned value (version {}) is referred to, but was never received", version);
      v = *static_cast<const Versioned<T>*>(known.get());
      v.version_ = version;
    } else {
      v = Versioned<T>(version, wire::load<T>(r));
      if (r.versions()) r.versions()->received(key, &wire::kTypeTag<T>, std::make_shared<const Versioned<T>>(v));
    }
  }
};

}  // namespace parl
