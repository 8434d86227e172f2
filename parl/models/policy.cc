#include "parl/models/policy.h"

#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "parl/agent/algorithm.h"
#include "parl/agent/categorical.h"
#include "parl/agent/checkpoint_files.h"
#include "parl/agent/gaussian.h"
#include "parl/agent/per_agent.h"
#include "parl/agent/recurrent.h"
#include "parl/agent/safetensors.h"
#include "parl/agent/tanh_gaussian.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"

namespace parl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAtoms = "atoms";  // count, v_min, v_max, dueling

const std::string& get(const SafetensorsMetadata& metadata, const std::string& key, const fs::path& file) {
  const auto at = metadata.find(key);
  PARL_CHECK(
      at != metadata.end(),
      "'{}' does not say its '{}': it was written by an earlier version; continue the run once, or make the model "
      "and set its weights",
      file.string(), key);
  return at->second;
}

// "1,2.5,inf"; empty text: no numbers.
std::vector<double> numbers(const SafetensorsMetadata& metadata, const std::string& key, const fs::path& file) {
  const std::string& text = get(metadata, key, file);
  std::vector<double> out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    char* end = nullptr;
    out.push_back(std::strtod(part.c_str(), &end));
    PARL_CHECK(end && *end == '\0' && !part.empty(), "'{}' has '{}' for its '{}', which are no numbers", file.string(),
               text, key);
  }
  const bool may_be_empty = key.starts_with("action_") || key.starts_with("part");
  PARL_CHECK(!out.empty() || may_be_empty, "'{}' has no numbers for its '{}'", file.string(), key);
  return out;
}

DType dtype_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i) {
    if (dtype_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  raise("no network takes observations of type '{}'", name);
}

std::string list(const auto& numbers) { return fmt::format("{}", fmt::join(numbers, ",")); }

std::vector<int64_t> whole(const std::vector<double>& numbers) { return {numbers.begin(), numbers.end()}; }

// "part0/name", "part0/shape", ...
void put_parts(const std::vector<ObsPart>& parts, SafetensorsMetadata& out) {
  out["parts"] = std::to_string(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string key = "part" + std::to_string(i) + "/";
    out[key + "name"] = parts[i].name;
    out[key + "dtype"] = dtype_name(parts[i].dtype);
    out[key + "shape"] = list(parts[i].shape);
    out[key + "choices"] = list(parts[i].choices);
    out[key + "offset"] = std::to_string(parts[i].offset);
    out[key + "scale"] = fmt::format("{}", parts[i].scale);
  }
}

std::vector<ObsPart> get_parts(const SafetensorsMetadata& metadata, const fs::path& file) {
  std::vector<ObsPart> parts;
  if (!metadata.contains("parts")) return parts;  // written before there were any
  const auto count = static_cast<size_t>(numbers(metadata, "parts", file).at(0));
  for (size_t i = 0; i < count; ++i) {
    const std::string key = "part" + std::to_string(i) + "/";
    ObsPart& part = parts.emplace_back();
    part.name = get(metadata, key + "name", file);
    part.dtype = dtype_named(get(metadata, key + "dtype", file));
    part.shape = whole(numbers(metadata, key + "shape", file));
    part.choices = whole(numbers(metadata, key + "choices", file));
    part.offset = static_cast<int64_t>(numbers(metadata, key + "offset", file).at(0));
    part.scale = numbers(metadata, key + "scale", file).at(0);
  }
  return parts;
}

}  // namespace

Policy::Policy(std::shared_ptr<Model> model, ModelSpec spec, bool tanh, std::optional<Atoms> atoms)
    : model_(std::move(model)), spec_(std::move(spec)), tanh_(tanh), atoms_(atoms) {
  model_->eval();
}

PolicyValue Policy::forward(const at::Tensor& obs) {
  torch::NoGradGuard no_grad;
  PolicyValue out;
  if (RecurrentModel* recurrent = model_->recurrent()) {
    if (!memory_.defined()) memory_ = recurrent->initial_state(obs.size(0));
    PARL_CHECK(memory_.size(0) == obs.size(0),
               "this policy remembers {} environments, here are observations of {}: call reset() first",
               memory_.size(0), obs.size(0));
    StepOutput step = recurrent->step(obs, memory_);
    memory_ = step.state;
    out = std::move(step.output);
  } else {
    out = model_->forward(obs);
  }
  if (atoms_) out.logits = atoms_->q_values(out.logits);
  return out;
}

void Policy::reset(const at::Tensor& rows) {
  if (!memory_.defined()) return;
  PARL_CHECK(rows.dim() == 1 && rows.size(0) == memory_.size(0) && rows.scalar_type() == at::kBool,
             "reset() takes [{}] bool: which of the environments begin anew", memory_.size(0));
  memory_ = memory_ * rows.logical_not().unsqueeze(1);
}

at::Tensor Policy::act(const at::Tensor& obs) {
  const at::Tensor policy = forward(obs).logits;
  if (!spec_.action_choices.empty()) return greedy_action(policy.cpu().contiguous(), spec_.action_choices);
  if (spec_.action_size == 0) return policy.argmax(1);
  at::Tensor out = tanh_ ? tanh_mean(policy.cpu()) : gaussian_mean(policy.cpu());
  for (int64_t i = 0; i < out.size(0); ++i) {
    float* row = out.mutable_data_ptr<float>() + i * spec_.action_size;
    map_action(spec_, row, row);
  }
  return out;
}

at::Tensor Policy::one(std::span<const std::byte> obs) const {
  std::vector<int64_t> shape = spec_.obs_shape;
  shape.insert(shape.begin(), 1);
  const at::Tensor one = torch::empty(shape, to_scalar_type(spec_.obs_dtype));
  PARL_CHECK(obs.size() == one.nbytes(), "an observation has {} bytes here, not {}", one.nbytes(), obs.size());
  std::copy(obs.begin(), obs.end(), static_cast<std::byte*>(one.mutable_data_ptr()));
  return one;
}

int64_t Policy::act(std::span<const std::byte> obs) {
  PARL_CHECK(spec_.action_size == 0, "this policy's actions are {} floats: use act_values()", spec_.action_size);
  PARL_CHECK(spec_.action_choices.empty(), "this policy's actions are {} numbers: use act_indices()",
             spec_.action_choices.size());
  return act(one(obs)).item<int64_t>();
}

std::vector<int64_t> Policy::act_indices(std::span<const std::byte> obs) {
  PARL_CHECK(!spec_.action_choices.empty(),
             "this policy's actions are not of several numbers: use act() or act_values()");
  const at::Tensor action = act(one(obs));
  return {action.const_data_ptr<int64_t>(), action.const_data_ptr<int64_t>() + action.numel()};
}

std::vector<float> Policy::act_values(std::span<const std::byte> obs) {
  PARL_CHECK(spec_.action_size > 0, "this policy chooses among {} actions: use act()", spec_.num_actions);
  const at::Tensor action = act(one(obs));
  return {action.const_data_ptr<float>(), action.const_data_ptr<float>() + spec_.action_size};
}

std::map<std::string, std::string> policy_metadata(const std::string& model, const ModelSpec& spec, bool tanh,
                                                   const std::vector<std::string>& agents) {
  SafetensorsMetadata out = {{"model", model},
                             {"agents", list(agents)},
                             {"action_low", list(spec.action_low)},
                             {"action_high", list(spec.action_high)},
                             {"action_choices", list(spec.action_choices)},
                             {"obs_shape", list(spec.obs_shape)},
                             {"obs_dtype", std::string(dtype_name(spec.obs_dtype))},
                             {"num_actions", std::to_string(spec.num_actions)},
                             {"tanh", tanh ? "1" : "0"}};
  put_parts(spec.parts, out);
  return out;
}

std::map<std::string, std::string> policy_atoms(const Atoms& atoms) {
  return {{kAtoms, fmt::format("{},{},{},{}", atoms.count, atoms.v_min, atoms.v_max, atoms.dueling ? 1 : 0)}};
}

std::unique_ptr<Policy> load_policy(const std::string& path, const ModelRegistry& models, const std::string& agent) {
  const fs::path file =
      fs::is_regular_file(path) ? fs::path(path) : fs::path(find_checkpoint(path, true, {kWeightsFile})) / kWeightsFile;
  if (file.filename() == kWeightsFile) check_manifest(file.parent_path(), {kWeightsFile});
  SafetensorsMetadata metadata;
  Weights weights = network_weights(load_safetensors(file, &metadata));
  const std::string agents = metadata.contains("agents") ? metadata.at("agents") : "";
  PARL_CHECK(agents.empty() || !agent.empty(), "'{}' holds a network for each of the agents {}: say whose to load",
             file.string(), agents);
  if (!agent.empty()) weights = weights_of_agent(weights, agent);
  ModelSpec spec;
  spec.obs_shape = whole(numbers(metadata, "obs_shape", file));
  spec.obs_dtype = dtype_named(get(metadata, "obs_dtype", file));
  spec.num_actions = static_cast<int64_t>(numbers(metadata, "num_actions", file).at(0));
  spec.action_low = numbers(metadata, "action_low", file);
  spec.action_high = numbers(metadata, "action_high", file);
  spec.action_size = static_cast<int64_t>(spec.action_low.size());
  if (metadata.contains("action_choices")) spec.action_choices = whole(numbers(metadata, "action_choices", file));
  spec.parts = get_parts(metadata, file);
  std::optional<Atoms> atoms;
  ModelSpec made_for = spec;
  if (metadata.count(kAtoms)) {
    const std::vector<double> given = numbers(metadata, kAtoms, file);
    PARL_CHECK_EQ(given.size(), 4u, "'{}' has something else for its '{}'", file.string(), kAtoms);
    atoms = Atoms{static_cast<int64_t>(given[0]), given[1], given[2], given[3] != 0};
    atoms->check();
    made_for.num_actions = atoms->outputs(spec.num_actions);
  }
  std::shared_ptr<Model> model = models.make(get(metadata, "model", file), made_for);
  try {
    model->set_weights(weights);
  } catch (const Error& error) {
    raise("'{}' does not fit the network '{}': {}", file.string(), metadata.at("model"), error.what());
  }
  const auto tanh = metadata.find("tanh");  // earlier versions had no such policies
  return std::make_unique<Policy>(std::move(model), std::move(spec), tanh != metadata.end() && tanh->second == "1",
                                  atoms);
}

}  // namespace parl
