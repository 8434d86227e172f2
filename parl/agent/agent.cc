#include "parl/agent/agent.h"

#include <utility>

#include "parl/agent/safetensors.h"
#include "parl/core/check.h"

namespace parl {
namespace {
constexpr char kStatePrefix[] = "state/";
}

Weights network_weights(Weights weights) {
  std::erase_if(weights.entries, [](const NamedArray& entry) { return entry.name.starts_with(kExploration); });
  return weights;
}

Agent::Agent(std::shared_ptr<Algorithm> algorithm) : algorithm_(std::move(algorithm)) {
  PARL_CHECK(algorithm_ != nullptr, "an Agent needs an Algorithm");
}

void Agent::save(const std::string& path) {
  Weights all = algorithm_->get_weights();
  for (NamedArray& entry : algorithm_->get_state().entries) {
    all.entries.push_back({kStatePrefix + entry.name, std::move(entry.array)});
  }
  save_safetensors(path, all, {{"format", "pt"}, {"writer", "parl"}});
}

void Agent::restore(const std::string& path) {
  Weights weights, state;
  for (NamedArray& entry : load_safetensors(path).entries) {
    const bool is_state = entry.name.rfind(kStatePrefix, 0) == 0;
    std::string name = is_state ? entry.name.substr(sizeof(kStatePrefix) - 1) : entry.name;
    (is_state ? state : weights).entries.push_back({std::move(name), std::move(entry.array)});
  }
  const Weights before = algorithm_->get_weights();
  algorithm_->set_weights(weights);
  if (state.entries.empty()) return;
  try {
    algorithm_->set_state(state);
  } catch (...) {
    algorithm_->set_weights(before);
    throw;
  }
}

}  // namespace parl
