// Configuration: structs with in-class defaults and one PARL_CONFIG field list become JSON, command-line flags and
// --help, with typed errors and near names for what is unknown.
//
//   enum class Reduction { kSum, kMean };
//   PARL_CONFIG_ENUM(Reduction, (kSum, "sum"), (kMean, "mean"));
//   struct Optimizer { double lr = 1e-3; double eps = 1e-8; };
//   PARL_CONFIG(Optimizer, (lr, "learning rate"), (eps, "added to the root"));
//   struct Settings { Optimizer optimizer; Reduction loss_reduction = Reduction::kSum; int actors = 2; };
//   PARL_CONFIG(Settings, (optimizer, ""), (loss_reduction, "of the loss"), (actors, "remote actors"));
//
//   Settings settings;
//   auto fields = config_fields(settings);          // views into `settings`: it must outlive them
//   config_from_json(fields, R"({"optimizer": {"lr": 0.1}})", "my.json");   // keys that are absent keep their values
//   config_set(fields, "loss-reduction", "mean");   // a flag's value, as text
//   std::string saved = config_to_json(fields);
//
// Field types: bool, integers, float, double, std::string, enums with PARL_CONFIG_ENUM, std::optional and std::vector
// of those, std::map<std::string, std::string>, and nested structs. A field's path is its JSON path ("optimizer.lr");
// its flag is the last name with dashes, prefixed by the structs around it unless their help text is "" ("--lr" above;
// with a help text it would be "--optimizer-lr"). Thread rule: fields belong to the thread that owns the struct.
// Errors: parl::Error.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "parl/core/check.h"
#include "parl/core/fields.h"

namespace parl {

// A value on its way between a field, JSON and text. Integers that fit int64 are int64_t.
struct ConfigValue;
using ConfigList = std::vector<ConfigValue>;
using ConfigMap = std::map<std::string, ConfigValue>;
struct ConfigValue : std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, ConfigList, ConfigMap> {
  using variant::variant;
};

// One leaf of a struct. `set` throws with what was wanted ("a number"), without the field's name.
struct ConfigField {
  std::string path;  // "optimizer.lr"
  std::string flag;  // "lr": as on the command line, without the dashes
  std::string help;
  std::string type;        // "number", "integer", "true|false", "text", "sum|mean", ...
  bool is_switch = false;  // a bool: the flag alone means true, --no-<flag> means false
  bool is_list = false;    // the flag may be repeated, or carry commas
  std::function<ConfigValue()> get;
  std::function<void(const ConfigValue&)> set;
  std::function<ConfigValue(std::string_view)> parse;  // text of a flag -> value that `set` accepts
};
using ConfigFields = std::vector<ConfigField>;

// JSON, every field, nested as the structs are, in the order of the lists.
std::string config_to_json(const ConfigFields& fields);
// Sets the fields that `text` has. Unknown key: error with the near names. `where` is named in errors ("file.json").
void config_from_json(const ConfigFields& fields, const std::string& text, const std::string& where);
void config_load(const ConfigFields& fields, const std::string& path);
void config_save(const ConfigFields& fields, const std::string& path);  // atomic

// Sets one field from text. `name` is a flag ("grad-clip") or a path ("optimizer.lr"); unknown: error with near names.
void config_set(const ConfigFields& fields, const std::string& name, std::string_view text);
const ConfigField* config_find(const ConfigFields& fields, std::string_view name);  // nullptr: absent
// A value as a flag would carry it: "0.5", "a,b", "key=value,..."; "none" for an empty optional.
std::string config_text(const ConfigValue& value);

// The paths whose values differ between two field lists of the same struct, as "path: left -> right".
std::vector<std::string> config_differences(const ConfigFields& left, const ConfigFields& right);

namespace internal {

[[noreturn]] void config_wrong_type(const std::string& wanted, const ConfigValue& got);
ConfigValue config_parse_scalar(std::string_view text);  // none|true|false|integer|number|text
std::vector<std::string_view> split_commas(std::string_view text);
double shortest_double(float value);                  // 0.1f -> 0.1
ConfigValue config_parse_map(std::string_view text);  // key=value, comma separated
int64_t config_int(const ConfigValue& value, int64_t low, int64_t high);
uint64_t config_uint(const ConfigValue& value, uint64_t high);
double config_double(const ConfigValue& value);
bool config_bool(const ConfigValue& value);
std::string config_string(const ConfigValue& value);
size_t config_choice(const ConfigValue& value, const std::vector<std::string>& names);
const ConfigList& config_list(const ConfigValue& value);
std::string flag_of(std::string_view name);
void check_distinct_flags(const ConfigFields& fields);

template <typename T>
concept ConfigEnum = requires {
  parl_config_enum(std::type_identity<T>{});
};

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

template <typename E>
std::vector<std::string> enum_names() {
  std::vector<std::string> names;
  for (const auto& [value, name] : parl_config_enum(std::type_identity<E>{})) names.emplace_back(name);
  return names;
}

template <typename T>
std::string config_type() {
  if constexpr (std::is_same_v<T, bool>) {
    return "true|false";
  } else if constexpr (std::is_integral_v<T>) {
    return "integer";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "number";
  } else if constexpr (ConfigEnum<T>) {
    return fmt::format("{}", fmt::join(enum_names<T>(), "|"));
  } else if constexpr (IsOptional<T>::value) {
    return config_type<typename T::value_type>() + "|none";
  } else if constexpr (IsVector<T>::value) {
    return config_type<typename T::value_type>() + ",...";
  } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
    return "key=value,...";
  } else {
    static_assert(std::is_same_v<T, std::string>,
                  "a config field is a bool, number, string, PARL_CONFIG_ENUM enum, optional or "
                  "vector of those, map<string, string>, or a struct with PARL_CONFIG");
    return "text";
  }
}

template <typename T>
ConfigValue config_get(const T& value) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_unsigned_v<T>) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return static_cast<uint64_t>(value);
    return static_cast<int64_t>(value);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<int64_t>(value);
  } else if constexpr (std::is_same_v<T, float>) {
    return shortest_double(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if constexpr (ConfigEnum<T>) {
    for (const auto& [e, name] : parl_config_enum(std::type_identity<T>{})) {
      if (e == value) return std::string(name);
    }
    raise("an enum holds {}, which has no name in its PARL_CONFIG_ENUM", static_cast<long>(value));
  } else if constexpr (IsOptional<T>::value) {
    return value ? config_get(*value) : ConfigValue{};
  } else if constexpr (IsVector<T>::value) {
    ConfigList list;
    for (const auto& item : value) list.push_back(config_get(static_cast<const typename T::value_type&>(item)));
    return list;
  } else {
    ConfigMap map;
    for (const auto& [key, text] : value) map[key] = text;
    return map;
  }
}

template <typename T>
void config_put(T& target, const ConfigValue& value) {
  if constexpr (std::is_same_v<T, bool>) {
    target = config_bool(value);
  } else if constexpr (std::is_unsigned_v<T>) {
    target = static_cast<T>(config_uint(value, std::numeric_limits<T>::max()));
  } else if constexpr (std::is_integral_v<T>) {
    target = static_cast<T>(config_int(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  } else if constexpr (std::is_floating_point_v<T>) {
    target = static_cast<T>(config_double(value));
  } else if constexpr (std::is_same_v<T, std::string>) {
    target = config_string(value);
  } else if constexpr (ConfigEnum<T>) {
    target = parl_config_enum(std::type_identity<T>{})[config_choice(value, enum_names<T>())].first;
  } else if constexpr (IsOptional<T>::value) {
    if (std::holds_alternative<std::monostate>(value)) {
      target.reset();
    } else {
      typename T::value_type inner{};
      config_put(inner, value);
      target = std::move(inner);
    }
  } else if constexpr (IsVector<T>::value) {
    T list;
    for (const ConfigValue& item : config_list(value)) {
      typename T::value_type inner{};
      config_put(inner, item);
      list.push_back(std::move(inner));
    }
    target = std::move(list);
  } else {
    if (!std::holds_alternative<ConfigMap>(value)) config_wrong_type("key=value pairs", value);
    T map;
    for (const auto& [key, item] : std::get<ConfigMap>(value)) map[key] = config_string(item);
    target = std::move(map);
  }
}

template <typename T>
ConfigValue config_parse(std::string_view text) {
  if constexpr (std::is_same_v<T, std::string>) {
    return std::string(text);
  } else if constexpr (IsOptional<T>::value) {
    if (text == "none") return {};
    return config_parse<typename T::value_type>(text);
  } else if constexpr (IsVector<T>::value) {
    ConfigList list;
    for (std::string_view item : split_commas(text)) list.push_back(config_parse<typename T::value_type>(item));
    return list;
  } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
    return config_parse_map(text);
  } else {
    return config_parse_scalar(text);
  }
}

template <HasFields Class>
void collect_fields(Class& object, const std::string& path, const std::string& flag, ConfigFields& out) {
  for_each_field(object, [&](const char* name, auto& member, const char* help) {
    using T = std::remove_cvref_t<decltype(member)>;
    const std::string here = path + name;
    if constexpr (HasFields<T>) {
      collect_fields(member, here + ".", *help ? flag + flag_of(name) + "-" : flag, out);
    } else {
      T* place = &member;
      out.push_back({here, flag + flag_of(name), help, config_type<T>(), std::is_same_v<T, bool>,
                     IsVector<T>::value || std::is_same_v<T, std::map<std::string, std::string>>,
                     [place] { return config_get(*place); },
                     [place](const ConfigValue& value) { config_put(*place, value); }, config_parse<T>});
    }
  });
}

}  // namespace internal

// The leaves of `object`, which must outlive them. Throws when two fields would share a flag.
template <HasFields Class>
ConfigFields config_fields(Class& object) {
  ConfigFields fields;
  internal::collect_fields(object, "", "", fields);
  internal::check_distinct_flags(fields);
  return fields;
}

template <HasFields Class>
std::string config_to_json(const Class& object) {
  return config_to_json(config_fields(const_cast<Class&>(object)));  // read only
}

}  // namespace parl

#define PARL_CONFIG_ENUM_ITEM_(Type, pair) PARL_CONFIG_ENUM_ITEM_2_(Type, PARL_UNPACK pair)
#define PARL_CONFIG_ENUM_ITEM_2_(Type, ...) PARL_CONFIG_ENUM_ITEM_3_(Type, __VA_ARGS__)
#define PARL_CONFIG_ENUM_ITEM_3_(Type, value, name) \
  ::std::pair<Type, const char*> { Type::value, name }
// After the enum, in its namespace: (enumerator, "name in JSON and flags") for each.
#define PARL_CONFIG_ENUM(Type, ...)                                                \
  [[maybe_unused]] inline auto parl_config_enum(::std::type_identity<Type>) {      \
    return ::std::array{PARL_FOR_EACH(PARL_CONFIG_ENUM_ITEM_, Type, __VA_ARGS__)}; \
  }                                                                                \
  static_assert(true, "")
