#include "parl/env_mujoco/internal/arguments.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "parl/core/check.h"

namespace parl::internal {
namespace {

// What only pictures or the time limit's wrapper depend on.
bool changes_results(const std::string& name) {
  static constexpr std::array<std::string_view, 7> kOthers{
      "max_episode_steps", "width", "height", "camera_id", "camera_name", "default_camera_config", "max_geom"};
  return std::find(kOthers.begin(), kOthers.end(), name) == kOthers.end();
}

}  // namespace

double parse_number(const std::string& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || std::isnan(value)) {
    raise("environment option '{}' is '{}'; it must be a number", option, text);
  }
  return value;
}

MujocoArgs::MujocoArgs(std::string id, const EnvArgs& args, std::vector<EnvOption> options)
    : id_(std::move(id)), given_(args), options_(std::move(options)) {
  std::vector<std::string> names;
  for (const EnvOption& option : options_) names.push_back(option.name);
  for (const auto& [name, value] : given_) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    raise("environment '{}' has no option '{}'{}; it has: {}", id_, name, did_you_mean(name, names),
          fmt::join(names, ", "));
  }
}

const std::string& MujocoArgs::text(const std::string& name) const {
  if (const auto it = given_.find(name); it != given_.end()) return it->second;
  for (const EnvOption& option : options_) {
    if (option.name == name) return option.default_value;
  }
  raise("'{}' does not list its option '{}'", id_, name);
}

double MujocoArgs::number(const std::string& name) const { return parse_number(name, text(name)); }

double MujocoArgs::size(const std::string& name) const {
  const double value = number(name);
  if (value < 0) raise("environment option '{}' is '{}'; it must not be negative", name, text(name));
  return value;
}

int MujocoArgs::whole(const std::string& name, int least) const {
  const std::string& value = text(name);
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least) {
    raise("environment option '{}' is '{}'; it must be a whole number, {} or more", name, value, least);
  }
  return number;
}

bool MujocoArgs::flag(const std::string& name) const { return arg_bool({{name, text(name)}}, name, false); }

Range MujocoArgs::range(const std::string& name) const {
  const std::string& value = text(name);
  const size_t dots = value.find("..");
  if (dots == std::string::npos) {
    raise("environment option '{}' is '{}'; it must be a range LOW..HIGH, such as 0.2..1 or -inf..10", name, value);
  }
  const Range range{parse_number(name, value.substr(0, dots)), parse_number(name, value.substr(dots + 2))};
  if (!(range.low <= range.high)) raise("environment option '{}' is '{}'; LOW must not be above HIGH", name, value);
  return range;
}

std::string MujocoArgs::contract() const {
  std::string line;
  for (const EnvOption& option : options_) {
    if (!changes_results(option.name)) continue;
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", option.name, text(option.name));
  }
  return line;
}

}  // namespace parl::internal
