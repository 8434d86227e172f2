#include "parl/env/env.h"

#include <cmath>

namespace parl {

void EnvSpec::set_observation(const Space& space) {
  ObservationLayout layout = lay_out(space);
  observation = std::move(layout.block);
  parts = std::move(layout.parts);
}

const SpacePart& EnvSpec::part(const std::string& name) const {
  std::vector<std::string> names;
  for (const SpacePart& p : parts) {
    if (p.name == name) return p;
    names.push_back(p.name);
  }
  raise("the observation of '{}' has no part '{}'{}", id, name, did_you_mean(name, names));
}

std::string EnvSpec::outside(const std::byte* obs) const {
  if (parts.empty()) return observation.contains(obs) ? "" : "the observation is outside " + to_string(observation);
  for (const SpacePart& p : parts) {
    if (!p.contains(obs + p.offset)) {
      return "the part '" + p.name + "' of the observation is outside " + to_string(p.space);
    }
  }
  return "";
}

void check_action(const EnvSpec& spec, const Action& action) {
  if (const auto* discrete = std::get_if<Discrete>(&spec.action)) {
    PARL_CHECK(action.index >= 0 && action.index < discrete->n, "'{}' has the actions 0..{}, not {}", spec.id,
               discrete->n - 1, action.index);
    return;
  }
  if (const auto* box = std::get_if<Box>(&spec.action)) {
    PARL_CHECK_EQ(action.values.size(), static_cast<size_t>(box->size()), "'{}' takes this many action values",
                  spec.id);
    for (float value : action.values)
      PARL_CHECK(!std::isnan(value), "'{}' was given an action that is not a number", spec.id);
    return;
  }
  const auto check_all = [&](size_t size, const auto& n) {
    PARL_CHECK_EQ(action.indices.size(), size, "'{}' takes actions of so many numbers", spec.id);
    for (size_t i = 0; i < size; ++i) {
      PARL_CHECK(action.indices[i] >= 0 && action.indices[i] < n(i), "'{}': number {} of an action is 0..{}, not {}",
                 spec.id, i, n(i) - 1, action.indices[i]);
    }
  };
  if (const auto* multi = std::get_if<MultiDiscrete>(&spec.action)) {
    check_all(multi->n.size(), [&](size_t i) { return multi->n[i]; });
  } else if (const auto* binary = std::get_if<MultiBinary>(&spec.action)) {
    check_all(static_cast<size_t>(binary->n), [](size_t) { return int64_t{2}; });
  } else {
    raise("'{}' has actions of a space that nobody can play: {}", spec.id, to_string(spec.action));
  }
}

void Env::render(Image& /*out*/) { raise("'{}' cannot draw itself: it does not override Env::render()", spec().id); }

std::vector<std::byte> Env::save_state() const {
  raise("'{}' cannot save its state: it does not override Env::save_state(); ask can_save_state() first", spec().id);
}

void Env::load_state(std::span<const std::byte> /*state*/) {
  raise("'{}' cannot load a state: it does not override Env::load_state(); ask can_save_state() first", spec().id);
}

}  // namespace parl
