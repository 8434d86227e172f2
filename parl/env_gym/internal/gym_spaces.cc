#include "parl/env_gym/internal/gym_spaces.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "parl/core/check.h"

namespace parl::internal {
namespace {

using Json = nlohmann::json;

DType dtype_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype_name(dtype) == name) return dtype;
  }
  raise("the Python process described an element type that does not exist: {}", name);
}

std::vector<double> bounds_of(const Json& list) {
  std::vector<double> out;
  for (const Json& item : list) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    out.push_back(item.is_string() ? (item.get<std::string>() == "inf" ? kInfinity : -kInfinity) : item.get<double>());
  }
  return out;
}

Space space_of(const Json& json) {
  const auto kind = json.at("kind").get<std::string>();
  if (kind == "box") {
    Box box{dtype_named(json.at("dtype")), json.at("shape"), bounds_of(json.at("low")), bounds_of(json.at("high"))};
    if (box.low.empty()) box.low = {0.0};  // of an empty box
    if (box.high.empty()) box.high = {0.0};
    return box;
  }
  if (kind == "discrete") return Discrete{json.at("n")};
  if (kind == "multi_discrete") return MultiDiscrete{json.at("n")};
  if (kind == "multi_binary") return MultiBinary{json.at("n")};
  if (kind == "dict") {
    Dict dict;
    for (const Json& item : json.at("items")) dict.items.emplace_back(item.at(0), space_of(item.at(1)));
    return dict;
  }
  PARL_CHECK(kind == "tuple", "the Python process described a space that does not exist: {}", kind);
  Tuple tuple;
  for (const Json& item : json.at("items")) tuple.items.push_back(space_of(item));
  return tuple;
}

Json kwargs_object(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  PARL_CHECK(json.is_object(), "environment option 'kwargs' is '{}'; it must be a JSON object: kwargs={{\"name\": 1}}",
             text);
  return json;
}

}  // namespace

GymDescription parse_gym_description(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    return {space_of(json.at("observation")), space_of(json.at("action")), json.at("max_episode_steps"),
            json.at("version"), json.at("python")};
  } catch (const Json::exception& error) {
    raise("the Python process described its environment in a way that cannot be read: {}", error.what());
  }
}

GymMemory plan_gym_memory(const EnvSpec& spec, int slots, std::string& text) {
  const auto aligned = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
  const auto* box = std::get_if<Box>(&spec.action);
  const size_t actions = box ? static_cast<size_t>(box->size()) : choices_of(spec.action).size();
  GymMemory memory;
  memory.observation = aligned(GymMemory::kAction + actions * (box ? sizeof(float) : sizeof(int64_t)));
  memory.stride = aligned(memory.observation + spec.observation.bytes());
  Json parts = Json::array();
  for (const SpacePart& part : spec.parts) parts.push_back({part.offset, std::string(dtype_name(part.dtype))});
  if (spec.parts.empty()) parts.push_back({0, std::string(dtype_name(spec.observation.dtype))});
  text = Json{{"size", memory.stride * static_cast<size_t>(slots)},
              {"stride", memory.stride},
              {"observation", memory.observation},
              {"parts", parts},
              {"actions", actions},
              {"action_type", box ? "f4" : "i8"}}
             .dump();
  return memory;
}

std::string gym_request(const std::string& id, const std::string& kwargs, const std::vector<std::string>& imports,
                        bool mask_from_info) {
  return Json{{"id", id}, {"kwargs", kwargs_object(kwargs)}, {"import", imports}, {"mask_from_info", mask_from_info}}
      .dump();
}

std::string merge_gym_kwargs(const std::string& kwargs, const std::vector<std::pair<std::string, std::string>>& more) {
  Json all = kwargs_object(kwargs);
  for (const auto& [name, text] : more) {
    Json value = Json::parse(text, nullptr, false);
    if (text == "True" || text == "False") value = text == "True";
    if (text == "None" || text == "none") value = nullptr;
    all[name] = value.is_discarded() ? Json(text) : value;
  }
  return all.dump();
}

}  // namespace parl::internal
