// What networks must fit, from an environment's spaces, and which algorithms and networks that leaves.
#include "parl/core/check.h"
#include "parl/train/program.h"

namespace parl {
namespace {

ObsPart obs_part_of(const SpacePart& part) {
  ObsPart out{part.name, part.dtype, part.shape, static_cast<int64_t>(part.offset), choices_of(part.space), 1};
  const auto* box = std::get_if<Box>(&part.space);
  const bool is_bytes = box && box->dtype == DType::kU8 && box->high == std::vector<double>{255};
  if (is_bytes) out.scale = 1.0 / 255;
  return out;
}

// A mask must say something about every choice.
void check_mask(const EnvSpec& env, const ModelSpec& spec) {
  const ObsPart* mask = spec.action_mask();
  if (!mask) return;
  PARL_CHECK(spec.num_actions > 0, "'{}' has a part '{}', but its actions are continuous", env.id, kActionMask);
  PARL_CHECK(mask->elements() == spec.num_actions && dtype_size(mask->dtype) == 1,
             "the part '{}' of '{}' must be uint8 or bool [{}], an element for each choice; it has {} of {}",
             kActionMask, env.id, spec.num_actions, mask->elements(), dtype_name(mask->dtype));
}

}  // namespace

ModelSpec model_spec_of(const EnvSpec& spec) {
  ModelSpec out;
  out.obs_shape = spec.observation.shape;
  out.obs_dtype = spec.observation.dtype;
  for (const SpacePart& part : spec.parts) out.parts.push_back(obs_part_of(part));
  if (const auto* box = std::get_if<Box>(&spec.action)) {
    PARL_CHECK(box->dtype == DType::kF32, "'{}' has actions {}; continuous ones must be float32", spec.id,
               to_string(spec.action));
    out.action_size = box->size();
    const auto bound = [&](const std::vector<double>& bounds, int64_t i) {
      return bounds.size() == 1 ? bounds[0] : bounds.at(static_cast<size_t>(i));
    };
    for (int64_t i = 0; i < out.action_size; ++i) {
      out.action_low.push_back(bound(box->low, i));
      out.action_high.push_back(bound(box->high, i));
    }
  } else {
    const std::vector<int64_t> choices = choices_of(spec.action);
    for (int64_t n : choices) out.num_actions += n;
    if (!std::holds_alternative<Discrete>(spec.action)) out.action_choices = choices;
  }
  check_mask(spec, out);
  return out;
}

void check_actions(const AlgorithmEntry& entry, const ModelSpec& spec, const std::string& env) {
  const auto those = [](bool AlgorithmEntry::*can) {
    std::vector<std::string> names;
    for (const AlgorithmEntry& other : program().algorithms) {
      if (other.*can) names.push_back(other.name);
    }
    return fmt::format("{}", fmt::join(names, ", "));
  };
  PARL_CHECK(spec.action_size == 0 || entry.continuous_actions,
             "{} chooses one action of a set; those of '{}' are continuous. These learn them: {}", entry.name, env,
             those(&AlgorithmEntry::continuous_actions));
  PARL_CHECK(spec.action_size > 0 || entry.discrete_actions,
             "{} learns continuous actions; '{}' has a finite set. These learn them: {}", entry.name, env,
             those(&AlgorithmEntry::discrete_actions));
  PARL_CHECK(spec.action_choices.empty() || entry.several_numbers,
             "{} chooses one action of a set; those of '{}' are {} numbers each. These learn them: {}", entry.name, env,
             spec.action_choices.size(), those(&AlgorithmEntry::several_numbers));
  PARL_CHECK(!spec.action_mask() || entry.action_masks,
             "'{}' says which actions are legal, and {} would take others. These do not: {}", env, entry.name,
             those(&AlgorithmEntry::action_masks));
}

std::string default_model(const AlgorithmEntry& entry, const ModelSpec& spec) {
  return entry.tanh_policy && spec.parts.empty() ? "mlp256" : default_model_for(spec);
}

}  // namespace parl
