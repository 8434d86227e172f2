// Policy: a trained network that acts, and nothing else: no algorithm, no training loop, no environment.
//
//   std::unique_ptr<Policy> policy = load_policy("runs/pong");   // link parl::models alone
//   int64_t action = policy->act(observation);                   // the bytes of one observation
//
// A checkpoint's weights.safetensors says which network it is and what it sees. Thread rule: one thread at a time; load
// one for each thread. Errors: parl::Error naming the file.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parl/agent/atoms.h"
#include "parl/agent/model.h"
#include "parl/models/registry.h"

namespace parl {

class Policy {
 public:
  // `atoms`: the model's outputs are distributions of returns over these (agent/atoms.h), as distributional DQN has
  // them.
  Policy(std::shared_ptr<Model> model, ModelSpec spec, std::optional<Atoms> atoms = {});

  // The best action for one observation: its bytes, dense, in the space's dtype and shape ([H, W, C] for images).
  int64_t act(std::span<const std::byte> obs) const;
  // The same for continuous actions: the policy's mean, in the environment's units.
  std::vector<float> act_values(std::span<const std::byte> obs) const;
  // The same for many: obs [N, ...obs_shape] -> [N] int64, or [N, A] float32 in the environment's units.
  at::Tensor act(const at::Tensor& obs) const;
  // What the network says: logits [N, A] (of a Q-network: numbers that are largest where Q is; the
  // Q-values themselves where it learns distributions), or a Gaussian's parameters
  // [N, 2A]; and the values.
  PolicyValue forward(const at::Tensor& obs) const;

  const ModelSpec& spec() const { return spec_; }

 private:
  at::Tensor one(std::span<const std::byte> obs) const;  // [1, ...obs_shape]
  std::shared_ptr<Model> model_;
  ModelSpec spec_;
  std::optional<Atoms> atoms_;
};

// What save_safetensors' metadata must say for load_policy.
std::map<std::string, std::string> policy_metadata(const std::string& model, const ModelSpec& spec);

// The entry of such metadata that says that the network's outputs are distributions.
std::map<std::string, std::string> policy_atoms(const Atoms& atoms);

// `path`: a run directory (its best checkpoint, or failing that the newest), a checkpoint folder, or a .safetensors
// file. `models` knows the network by name; give your own registry for a network of your own.
std::unique_ptr<Policy> load_policy(const std::string& path, const ModelRegistry& models = builtin_models());

}  // namespace parl
