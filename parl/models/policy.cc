#include "parl/models/policy.h"

#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"

namespace parl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsFile = "weights.safetensors";

// The file with the weights, for whatever the user named.
fs::path weights_file(const fs::path& path) {
  PARL_CHECK(fs::exists(path), "there is no run or checkpoint at '{}'", path.string());
  if (fs::is_regular_file(path)) return path;
  if (fs::exists(path / kWeightsFile)) return path / kWeightsFile;
  const fs::path all = path / "checkpoints";
  if (fs::exists(all / "best" / kWeightsFile)) return all / "best" / kWeightsFile;
  std::error_code none;
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(all, none)) {
    const std::string name = entry.path().filename();
    const bool whole = name.starts_with("step_") && name.find(".tmp") == std::string::npos;
    if (whole && fs::exists(entry.path() / kWeightsFile)) newest = std::max(newest, entry.path());
  }
  PARL_CHECK(!newest.empty(), "'{}' holds no checkpoint: give a run directory, a checkpoint folder or its {}",
             path.string(), kWeightsFile);
  return newest / kWeightsFile;
}

const std::string& get(const SafetensorsMetadata& metadata, const std::string& key, const fs::path& file) {
  const auto at = metadata.find(key);
  PARL_CHECK(
      at != metadata.end(),
      "'{}' does not say its '{}': it was written by an earlier version; continue the run once, or make the model "
      "and set its weights",
      file.string(), key);
  return at->second;
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

PolicyValue Policy::forward(const at::Tensor& obs) const {
  torch::NoGradGuard no_grad;
  return model_->forward(obs);
}

at::Tensor Policy::act(const at::Tensor& obs) const { return forward(obs).logits.argmax(1); }

int64_t Policy::act(std::span<const std::byte> obs) const {
  std::vector<int64_t> shape = spec_.obs_shape;
  shape.insert(shape.begin(), 1);
  const at::Tensor one = torch::empty(shape, to_scalar_type(spec_.obs_dtype));
  PARL_CHECK(obs.size() == one.nbytes(), "an observation has {} bytes here, not {}", one.nbytes(), obs.size());
  std::copy(obs.begin(), obs.end(), static_cast<std::byte*>(one.mutable_data_ptr()));
  return act(one).item<int64_t>();
}

std::map<std::string, std::string> policy_metadata(const std::string& model, const ModelSpec& spec) {
  return {{"model", model},
          {"obs_shape", fmt::format("{}", fmt::join(spec.obs_shape, ","))},
          {"obs_dtype", std::string(dtype_name(spec.obs_dtype))},
          {"num_actions", std::to_string(spec.num_actions)},
          {"action_size", std::to_string(spec.action_size)}};
}

std::unique_ptr<Policy> load_policy(const std::string& path, const ModelRegistry& models) {
  const fs::path file = weights_file(path);
  SafetensorsMetadata metadata;
  Weights weights = load_safetensors(file, &metadata);
  ModelSpec spec;
  std::istringstream shape(get(metadata, "obs_shape", file));
  for (std::string size; std::getline(shape, size, ',');) spec.obs_shape.push_back(std::stoll(size));
  spec.obs_dtype = dtype_named(get(metadata, "obs_dtype", file));
  spec.num_actions = std::stoll(get(metadata, "num_actions", file));
  spec.action_size = std::stoll(get(metadata, "action_size", file));
  // What belongs to acting in training, such as a rate of exploration, is no part of the network.
  std::erase_if(weights.entries, [](const NamedArray& entry) { return entry.name.starts_with("exploration/"); });
  std::shared_ptr<Model> model = models.make(get(metadata, "model", file), spec);
  model->set_weights(weights);
  return std::make_unique<Policy>(std::move(model), std::move(spec));
}

}  // namespace parl
