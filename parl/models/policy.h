// Policy: a trained network that acts, and nothing else: no algorithm, no training loop, no environment.
//
//   std::unique_ptr<Policy> policy = load_policy("runs/pong");   // link parl::models alone
//   int64_t action = policy->act(observation);                   // the bytes of one observation
//
// A network with a memory (agent/recurrent.h) has one here, too: of the observations since the last reset(). Call it
// before each episode's first observation; without a memory it does nothing.
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
  // tanh: the policy's own continuous action is the tanh of the mean (agent/tanh_gaussian.h), not the mean.
  // `atoms`: the model's outputs are distributions of returns over these (agent/atoms.h), as distributional DQN has
  // them.
  Policy(std::shared_ptr<Model> model, ModelSpec spec, bool tanh = false, std::optional<Atoms> atoms = {});

  // The best action for one observation: its bytes, dense, in the space's dtype and shape ([H, W, C] for images).
  int64_t act(std::span<const std::byte> obs);
  // The same for actions of several numbers.
  std::vector<int64_t> act_indices(std::span<const std::byte> obs);
  // The same for continuous actions: the policy's mean, or its tanh, in the environment's units.
  std::vector<float> act_values(std::span<const std::byte> obs);
  // The same for many: obs [N, ...obs_shape] -> [N] int64, [N, K] int64 of K numbers, or [N, A] float32 in the
  // environment's units. With a memory each row has its own: keep their number and order until reset().
  at::Tensor act(const at::Tensor& obs);
  // What the network says: logits [N, A] (of a Q-network: numbers that are largest where Q is; the
  // Q-values themselves where it learns distributions), or a Gaussian's parameters
  // [N, 2A]; and the values.
  PolicyValue forward(const at::Tensor& obs);

  // New episodes begin: everywhere, or in the rows [N] bool of the last act() alone.
  void reset() { memory_ = at::Tensor(); }
  void reset(const at::Tensor& rows);

  const ModelSpec& spec() const { return spec_; }

 private:
  at::Tensor one(std::span<const std::byte> obs) const;  // [1, ...obs_shape]
  std::shared_ptr<Model> model_;
  ModelSpec spec_;
  bool tanh_;
  std::optional<Atoms> atoms_;
  at::Tensor memory_;  // [N, S]; undefined: zeros
};

// What save_safetensors' metadata must say for load_policy. `tanh`: actions are the tanh of what the network draws;
// `agents`: those that have networks of their own.
std::map<std::string, std::string> policy_metadata(const std::string& model, const ModelSpec& spec, bool tanh = false,
                                                   const std::vector<std::string>& agents = {});

// The entry of such metadata that says that the network's outputs are distributions.
std::map<std::string, std::string> policy_atoms(const Atoms& atoms);

// `path`: a run directory (its best checkpoint, or failing that the newest), a checkpoint folder, or a .safetensors
// file. `models` knows the network by name; give your own registry for a network of your own. `agent`: whose network,
// where agents learnt independently (--policies independent).
std::unique_ptr<Policy> load_policy(const std::string& path, const ModelRegistry& models = builtin_models(),
                                    const std::string& agent = "");

}  // namespace parl
