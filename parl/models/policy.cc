#include "parl/models/policy.h"

#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "parl/agent/algorithm.h"
#include "parl/agent/checkpoint_files.h"
#include "parl/agent/gaussian.h"
#include "parl/agent/recurrent.h"
#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"

namespace parl {
namespace {

namespace fs = std::filesystem;

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
  PARL_CHECK(!out.empty() || key.starts_with("action_"), "'{}' has no numbers for its '{}'", file.string(), key);
  return out;
}

DType dtype_named(const std::string& name) {
  for (const DType dtype : {DType::kU8, DType::kF32}) {
    if (dtype_name(dtype) == name) return dtype;
  }
  raise("no network takes observations of type '{}'", name);
}

}  // namespace

Policy::Policy(std::shared_ptr<Model> model, ModelSpec spec) : model_(std::move(model)), spec_(std::move(spec)) {
  model_->eval();
}

PolicyValue Policy::forward(const at::Tensor& obs) {
  torch::NoGradGuard no_grad;
  RecurrentModel* recurrent = model_->recurrent();
  if (!recurrent) return model_->forward(obs);
  if (!memory_.defined()) memory_ = recurrent->initial_state(obs.size(0));
  PARL_CHECK(memory_.size(0) == obs.size(0),
             "this policy remembers {} environments, here are observations of {}: call reset() first", memory_.size(0),
             obs.size(0));
  StepOutput out = recurrent->step(obs, memory_);
  memory_ = out.state;
  return out.output;
}

void Policy::reset(const at::Tensor& rows) {
  if (!memory_.defined()) return;
  PARL_CHECK(rows.dim() == 1 && rows.size(0) == memory_.size(0) && rows.scalar_type() == at::kBool,
             "reset() takes [{}] bool: which of the environments begin anew", memory_.size(0));
  memory_ = memory_ * rows.logical_not().unsqueeze(1);
}

at::Tensor Policy::act(const at::Tensor& obs) {
  const at::Tensor policy = forward(obs).logits;
  if (spec_.action_size == 0) return policy.argmax(1);
  at::Tensor out = gaussian_mean(policy.cpu());
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
  return act(one(obs)).item<int64_t>();
}

std::vector<float> Policy::act_values(std::span<const std::byte> obs) {
  PARL_CHECK(spec_.action_size > 0, "this policy chooses among {} actions: use act()", spec_.num_actions);
  const at::Tensor action = act(one(obs));
  return {action.const_data_ptr<float>(), action.const_data_ptr<float>() + spec_.action_size};
}

std::map<std::string, std::string> policy_metadata(const std::string& model, const ModelSpec& spec) {
  const auto list = [](const std::vector<double>& bounds) { return fmt::format("{}", fmt::join(bounds, ",")); };
  return {{"model", model},
          {"action_low", list(spec.action_low)},
          {"action_high", list(spec.action_high)},
          {"obs_shape", fmt::format("{}", fmt::join(spec.obs_shape, ","))},
          {"obs_dtype", std::string(dtype_name(spec.obs_dtype))},
          {"num_actions", std::to_string(spec.num_actions)}};
}

std::unique_ptr<Policy> load_policy(const std::string& path, const ModelRegistry& models) {
  const fs::path file =
      fs::is_regular_file(path) ? fs::path(path) : fs::path(find_checkpoint(path, true, {kWeightsFile})) / kWeightsFile;
  SafetensorsMetadata metadata;
  const Weights weights = network_weights(load_safetensors(file, &metadata));
  ModelSpec spec;
  for (const double size : numbers(metadata, "obs_shape", file)) spec.obs_shape.push_back(static_cast<int64_t>(size));
  spec.obs_dtype = dtype_named(get(metadata, "obs_dtype", file));
  spec.num_actions = static_cast<int64_t>(numbers(metadata, "num_actions", file).at(0));
  spec.action_low = numbers(metadata, "action_low", file);
  spec.action_high = numbers(metadata, "action_high", file);
  spec.action_size = static_cast<int64_t>(spec.action_low.size());
  std::shared_ptr<Model> model = models.make(get(metadata, "model", file), spec);
  try {
    model->set_weights(weights);
  } catch (const Error& error) {
    raise("'{}' does not fit the network '{}': {}", file.string(), metadata.at("model"), error.what());
  }
  return std::make_unique<Policy>(std::move(model), std::move(spec));
}

}  // namespace parl
