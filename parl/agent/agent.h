// Agent: an algorithm with its memory on disk. What a program acts and learns with when it needs no training loop.
//
//   Agent agent(std::make_shared<Impala>(model, config));
//   agent.restore("agent.safetensors");
//   auto out = agent.predict(obs);
//
// save() writes one safetensors file: the weights under the model's names, the algorithm's state (optimizer moments,
// counters, RNG) under "state/...". Atomic: see safetensors.h.
// Thread rule: one thread at a time, as its algorithm.
#pragma once

#include <memory>
#include <string>

#include "parl/agent/algorithm.h"

namespace parl {

class Agent {
 public:
  explicit Agent(std::shared_ptr<Algorithm> algorithm);

  ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) { return algorithm_->sample(obs, uniforms); }
  ActOutput predict(const at::Tensor& obs) { return algorithm_->predict(obs); }
  // The same with the memory of a recurrent network: hand `state` of the output back with the next observation.
  ActOutput act(const ActInput& in) { return algorithm_->act(in); }
  LearnStats learn(const Batch& batch, int64_t agent_steps) { return algorithm_->learn(batch, agent_steps); }

  Weights get_weights() { return algorithm_->get_weights(); }
  void set_weights(const Weights& weights) { algorithm_->set_weights(weights); }
  Algorithm& algorithm() { return *algorithm_; }

  void save(const std::string& path);
  // Nothing changes when it throws because the file is missing, broken or of another network. A file of weights alone
  // restores the weights and leaves the algorithm's state.
  void restore(const std::string& path);

 private:
  std::shared_ptr<Algorithm> algorithm_;
};

}  // namespace parl
