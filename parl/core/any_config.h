// AnyConfig: one PARL_CONFIG struct of any type, by value; what holds it need not know the type.
//
//   AnyConfig settings = PpoConfig{};
//   settings.as<PpoConfig>().clip = 0.1;
//   ConfigFields fields = settings.fields("ppo.");   // views into `settings`: valid until it is assigned or destroyed
//
// Thread rule: one thread at a time. Errors: parl::Error from as() when it holds another type.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>

#include "parl/core/check.h"
#include "parl/core/config.h"

namespace parl {

class AnyConfig {
 public:
  AnyConfig() = default;  // holds nothing; has no fields
  template <HasFields T>
  AnyConfig(T value) : held_(std::make_unique<Held<T>>(std::move(value))) {}  // NOLINT: a value of any such type
  AnyConfig(const AnyConfig& other) : held_(other.held_ ? other.held_->clone() : nullptr) {}
  AnyConfig(AnyConfig&&) noexcept = default;
  AnyConfig& operator=(AnyConfig other) noexcept {
    held_ = std::move(other.held_);
    return *this;
  }

  bool empty() const { return !held_; }
  template <HasFields T>
  bool holds() const {
    return dynamic_cast<const Held<T>*>(held_.get()) != nullptr;
  }
  template <HasFields T>
  const T& as() const {
    const auto* held = dynamic_cast<const Held<T>*>(held_.get());
    PARL_CHECK(
        held,
        "these settings are those of another algorithm: begin with program().config_of(\"its name\"), or assign its "
        "config struct to TrainConfig::settings (wanted here: {})",
        typeid(T).name());
    return held->value;
  }
  template <HasFields T>
  T& as() {
    return const_cast<T&>(std::as_const(*this).template as<T>());
  }
  ConfigFields fields(const std::string& path_prefix) { return held_ ? held_->fields(path_prefix) : ConfigFields{}; }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual std::unique_ptr<Base> clone() const = 0;
    virtual ConfigFields fields(const std::string& path_prefix) = 0;
  };
  template <typename T>
  struct Held : Base {
    explicit Held(T v) : value(std::move(v)) {}
    std::unique_ptr<Base> clone() const override { return std::make_unique<Held>(value); }
    ConfigFields fields(const std::string& path_prefix) override {
      ConfigFields out;
      internal::collect_fields(value, path_prefix, "", out);
      return out;
    }
    T value;
  };
  std::unique_ptr<Base> held_;
};

}  // namespace parl
