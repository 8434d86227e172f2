#include "parl/core/config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "parl/core/config_json.h"
#include "parl/core/files.h"

namespace parl {
namespace {

using Json = nlohmann::ordered_json;

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

using Variant = ConfigValue::variant;
const Variant& base(const ConfigValue& value) { return value; }

Json to_json(const ConfigValue& value) {
  return std::visit(Overloaded{[](std::monostate) { return Json(nullptr); },
                               [](double number) {  // JSON has no infinities: they travel as text
                                 return std::isfinite(number) ? Json(number) : Json(fmt::format("{}", number));
                               },
                               [](const ConfigList& list) {
                                 Json out = Json::array();
                                 for (const ConfigValue& item : list) out.push_back(to_json(item));
                                 return out;
                               },
                               [](const ConfigMap& map) {
                                 Json out = Json::object();
                                 for (const auto& [key, item] : map) out[key] = to_json(item);
                                 return out;
                               },
                               [](const auto& plain) { return Json(plain); }},
                    base(value));
}

ConfigValue from_json(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<int64_t>();
    case Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return number;
      return static_cast<int64_t>(number);
    }
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::array: {
      ConfigList list;
      for (const Json& item : json) list.push_back(from_json(item));
      return list;
    }
    case Json::value_t::object: {
      ConfigMap map;
      for (const auto& [key, item] : json.items()) map[key] = from_json(item);
      return map;
    }
    default:
      return {};
  }
}

std::vector<std::string> names_of(const ConfigFields& fields, std::string ConfigField::*name) {
  std::vector<std::string> names;
  for (const ConfigField& field : fields) names.push_back(field.*name);
  return names;
}

void set_field(const ConfigField& field, const std::string& shown, const ConfigValue& value) {
  try {
    field.set(value);
  } catch (const Error& error) {
    raise("{} {}", shown, error.what());
  }
}

// Walks the object: a key is a field, or a struct on the way to fields.
void apply_object(const ConfigFields& fields, const Json& object, const std::string& prefix, const std::string& where) {
  for (const auto& [key, item] : object.items()) {
    const std::string path = prefix + key;
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const ConfigField& f) { return f.path == path; });
    if (field != fields.end()) {
      set_field(*field, fmt::format("{}: \"{}\"", where, path), from_json(item));
      continue;
    }
    const std::string below = path + ".";
    const bool is_struct =
        std::any_of(fields.begin(), fields.end(), [&](const ConfigField& f) { return f.path.starts_with(below); });
    if (!is_struct)
      raise("{}: unknown key \"{}\"{}", where, path, did_you_mean(path, names_of(fields, &ConfigField::path)));
    if (!item.is_object()) raise("{}: \"{}\" wants an object {{...}}, got {}", where, path, item.dump());
    apply_object(fields, item, below, where);
  }
}

Json parse_object(const std::string& text, const std::string& where) {
  Json root;
  try {
    root = Json::parse(text, nullptr, true, /*ignore_comments=*/true);
  } catch (const Json::parse_error& error) {
    raise("{} is not valid JSON: {}", where, error.what());
  }
  if (!root.is_object()) raise("{}: a configuration is a JSON object {{\"name\": value, ...}}", where);
  return root;
}

void add_paths(const Json& object, const std::string& prefix, std::vector<std::string>& paths) {
  for (const auto& [key, item] : object.items()) {
    if (item.is_object()) {
      add_paths(item, prefix + key + ".", paths);
    } else {
      paths.push_back(prefix + key);
    }
  }
}

}  // namespace

std::string config_to_json(const ConfigFields& fields) {
  Json root = Json::object();
  for (const ConfigField& field : fields) {
    Json* place = &root;
    std::string_view rest = field.path;
    for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      place = &(*place)[std::string(rest.substr(0, dot))];
      rest.remove_prefix(dot + 1);
    }
    (*place)[std::string(rest)] = to_json(field.get());
  }
  return root.dump(2) + "\n";
}

void config_from_json(const ConfigFields& fields, const std::string& text, const std::string& where,
                      const std::vector<std::string>& skip) {
  Json root = parse_object(text, where);
  for (const std::string& key : skip) root.erase(key);
  apply_object(fields, root, "", where);
}

void config_from_json(const ConfigFields& fields, const std::string& text, const std::string& where) {
  config_from_json(fields, text, where, {});
}

std::vector<std::string> config_paths(const std::string& text, const std::string& where) {
  std::vector<std::string> paths;
  add_paths(parse_object(text, where), "", paths);
  return paths;
}

std::optional<ConfigValue> config_value(const std::string& text, const std::string& key, const std::string& where) {
  const Json root = parse_object(text, where);
  const auto at = root.find(key);
  if (at == root.end()) return std::nullopt;
  return from_json(*at);
}

void config_load(const ConfigFields& fields, const std::string& path) {
  config_from_json(fields, read_file(path), path);
}

void config_save(const ConfigFields& fields, const std::string& path) {
  write_file_atomically(path, config_to_json(fields));
}

const ConfigField* config_find(const ConfigFields& fields, std::string_view name) {
  for (const ConfigField& field : fields) {
    if (field.flag == name || field.path == name) return &field;
  }
  return nullptr;
}

void config_set(const ConfigFields& fields, const std::string& name, std::string_view text) {
  const ConfigField* field = config_find(fields, name);
  if (!field) raise("unknown option '--{}'{}", name, did_you_mean(name, names_of(fields, &ConfigField::flag)));
  ConfigValue value;
  try {
    value = field->parse(text);
  } catch (const Error& error) {
    raise("--{} {}", field->flag, error.what());
  }
  set_field(*field, "--" + field->flag, value);
}

std::string config_text(const ConfigValue& value) {
  return std::visit(
      Overloaded{[](std::monostate) { return std::string("none"); }, [](const std::string& text) { return text; },
                 [](const ConfigList& list) {
                   std::vector<std::string> items;
                   for (const ConfigValue& item : list) items.push_back(config_text(item));
                   return fmt::format("{}", fmt::join(items, ","));
                 },
                 [](const ConfigMap& map) {
                   std::vector<std::string> items;
                   for (const auto& [key, item] : map) items.push_back(key + "=" + config_text(item));
                   return fmt::format("{}", fmt::join(items, ","));
                 },
                 [](const auto& plain) { return fmt::format("{}", plain); }},
      base(value));
}

std::vector<std::string> config_differences(const ConfigFields& left, const ConfigFields& right) {
  PARL_CHECK_EQ(left.size(), right.size(), "config_differences compares two objects of one struct");
  std::vector<std::string> out;
  for (size_t i = 0; i < left.size(); ++i) {
    const std::string a = config_text(left[i].get()), b = config_text(right[i].get());
    if (a != b) out.push_back(fmt::format("{}: {} -> {}", left[i].path, a, b));
  }
  return out;
}

namespace internal {

void config_wrong_type(const std::string& wanted, const ConfigValue& got) {
  raise("wants {}, got {}", wanted,
        std::holds_alternative<std::string>(got) ? "'" + std::get<std::string>(got) + "'" : to_json(got).dump());
}

ConfigValue config_parse_scalar(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  if (text == "none") return {};
  const char* end = text.data() + text.size();
  int64_t integer = 0;
  if (auto [at, error] = std::from_chars(text.data(), end, integer); error == std::errc() && at == end) return integer;
  uint64_t large = 0;
  if (auto [at, error] = std::from_chars(text.data(), end, large); error == std::errc() && at == end) return large;
  double number = 0;
  if (auto [at, error] = std::from_chars(text.data(), end, number); error == std::errc() && at == end) return number;
  return std::string(text);
}

std::vector<std::string_view> split_commas(std::string_view text) {
  std::vector<std::string_view> items;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    items.push_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

ConfigValue config_parse_map(std::string_view text) {
  ConfigMap map;
  while (!text.empty()) {
    size_t comma = 0;  // the first that is in no brackets: "size=[3,4],kwargs={"a": 1, "b": 2}" are two items
    for (int depth = 0; comma < text.size() && (depth > 0 || text[comma] != ','); ++comma) {
      if (text[comma] == '[' || text[comma] == '{') ++depth;
      if (text[comma] == ']' || text[comma] == '}') --depth;
    }
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) raise("wants key=value, got '{}'", item);
    map[std::string(item.substr(0, equals))] = std::string(item.substr(equals + 1));
  }
  return map;
}

double shortest_double(float value) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value);
  double out = 0;
  std::from_chars(text, written.ptr, out);
  return out;
}

int64_t config_int(const ConfigValue& value, int64_t low, int64_t high) {
  int64_t out = 0;
  const double* number = std::get_if<double>(&value);
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    out = *integer;
  } else if (number && *number == std::floor(*number) && std::abs(*number) < 9e15) {
    out = static_cast<int64_t>(*number);  // 3e6
  } else {
    config_wrong_type("an integer", value);
  }
  if (out < low || out > high) config_wrong_type(fmt::format("an integer in {} .. {}", low, high), value);
  return out;
}

uint64_t config_uint(const ConfigValue& value, uint64_t high) {
  if (const auto* large = std::get_if<uint64_t>(&value); large && *large <= high) return *large;
  const uint64_t limit = std::min<uint64_t>(high, std::numeric_limits<int64_t>::max());
  if (std::holds_alternative<uint64_t>(value)) config_wrong_type(fmt::format("an integer in 0 .. {}", high), value);
  return static_cast<uint64_t>(config_int(value, 0, static_cast<int64_t>(limit)));
}

double config_double(const ConfigValue& value) {
  if (const auto* number = std::get_if<double>(&value); number && !std::isnan(*number)) return *number;
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* large = std::get_if<uint64_t>(&value)) return static_cast<double>(*large);
  if (const auto* text = std::get_if<std::string>(&value)) {  // infinities come as text from JSON
    if (*text == "inf") return std::numeric_limits<double>::infinity();
    if (*text == "-inf") return -std::numeric_limits<double>::infinity();
  }
  config_wrong_type("a number", value);
}

bool config_bool(const ConfigValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  config_wrong_type("true or false", value);
}

std::string config_string(const ConfigValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (std::holds_alternative<ConfigList>(value) || std::holds_alternative<ConfigMap>(value) ||
      std::holds_alternative<std::monostate>(value)) {
    config_wrong_type("text", value);
  }
  return config_text(value);
}

size_t config_choice(const ConfigValue& value, const std::vector<std::string>& names) {
  const auto* text = std::get_if<std::string>(&value);
  const std::string wanted = fmt::format("one of {}", fmt::join(names, ", "));
  if (!text) config_wrong_type(wanted, value);
  const auto at = std::find(names.begin(), names.end(), *text);
  if (at == names.end()) raise("wants {}, got '{}'{}", wanted, *text, did_you_mean(*text, names));
  return static_cast<size_t>(at - names.begin());
}

const ConfigList& config_list(const ConfigValue& value) {
  if (const auto* list = std::get_if<ConfigList>(&value)) return *list;
  config_wrong_type("a list", value);
}

std::string flag_of(std::string_view name) {
  std::string flag(name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

void check_distinct_flags(const ConfigFields& fields) {
  std::map<std::string, std::string> seen;
  for (const ConfigField& field : fields) {
    const auto [at, added] = seen.emplace(field.flag, field.path);
    if (!added)
      raise("the fields {} and {} would share the flag --{}: give the struct around one of them a help text",
            at->second, field.path, field.flag);
  }
}

}  // namespace internal
}  // namespace parl
