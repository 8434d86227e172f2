#include "parl/algorithms/reference_file.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "parl/agent/safetensors.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/learn_stat.h"

namespace parl {

ReferenceFile::ReferenceFile(const std::string& name) {
  SafetensorsMetadata metadata;
  tensors = load_safetensors(
      std::string(PARL_SOURCE_DIR) + "/parl/algorithms/testdata/" + name + "_reference.safetensors", &metadata);
  cases = metadata.at("cases");
}

at::Tensor ReferenceFile::get(const std::string& entry) const { return to_tensor(get_entry(tensors, entry)); }

void ReferenceFile::set_initial(Model& model, const std::string& name) const {
  Weights initial;
  for (const auto& item : model.named_parameters())
    initial.entries.push_back({item.key(), get_entry(tensors, name + "/initial/" + item.key())});
  model.set_weights(initial);
}

Batch ReferenceFile::batch(const std::string& at) const {
  Batch b;
  b.obs = get(at + "obs"), b.action = get(at + "action"), b.behaviour_logits = get(at + "behaviour_logits");
  b.reward = get(at + "reward"), b.terminated = get(at + "terminated"), b.truncated = get(at + "truncated");
  b.final_index = get(at + "final_index"), b.final_obs = get(at + "final_obs");
  if (find_entry(tensors, at + "state")) b.state = get(at + "state");
  return b;
}

void ReferenceFile::expect_update(const std::string& name, int64_t step, const LearnStats& stats, const Model& model,
                                  double max_grad_norm, bool with_gradient) const {
  const std::string at = name + "/" + std::to_string(step) + "/";
  const double loss = get(at + "loss").item<double>(), norm = get(at + "grad_norm").item<double>();
  EXPECT_NEAR(stat(stats, "loss"), loss, 2e-5 * (1 + std::abs(loss)));
  EXPECT_NEAR(stat(stats, "grad_norm"), norm, 2e-5 * (1 + norm));
  for (const auto& item : model.named_parameters()) {
    EXPECT_TRUE(at::allclose(item.value(), get(at + "after/" + item.key()), 1e-4, 1e-5)) << at << item.key();
    if (!with_gradient) continue;
    const double factor = std::min(1.0, max_grad_norm / (norm + 1e-6));
    EXPECT_TRUE(at::allclose(item.value().grad() * factor, get(name + "/gradient/" + item.key()), 1e-4, 1e-5))
        << item.key();
  }
}

ActorCriticConfig actor_critic_config_of(const std::string& case_json) {
  const nlohmann::json c = nlohmann::json::parse(case_json);
  ActorCriticConfig config;
  config.estimator = c["estimator"] == "gae" ? Estimator::kGae : Estimator::kVtrace;
  config.recompute_targets = c["recompute"];
  config.gamma = c["gamma"], config.lambda = c["lam"], config.rho_clip = c["rho_clip"], config.c_clip = c["c_clip"];
  config.pg_rho_clip = c["pg_rho_clip"], config.value_cost = c["value_cost"], config.entropy_cost = c["entropy_cost"];
  config.clip = c["clip"], config.max_grad_norm = c["max_grad_norm"], config.lr = c["lr"], config.eps = c["eps"];
  config.epochs = c["epochs"], config.normalize_advantage = c["normalize"];
  config.loss_reduction = c["reduction"] == "sum" ? Reduction::kSum : Reduction::kMean;
  config.optimizer = c["optimizer"] == "adam" ? OptimizerKind::kAdam : OptimizerKind::kRmsprop;
  return config;
}

}  // namespace parl
