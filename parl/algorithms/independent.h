// Independent: a learner of its own for every agent of a shared environment (parl/env/parallel_env.h). Each has its own
// network, optimizer and whatever else its algorithm keeps; to each, the others are part of the environment
// (independent learners, Tan 1993; with PPO: de Witt et al. 2020, arXiv 2011.09533).
//
// Rows belong to agents in turn: row r of a batch of observations, and unroll r of a Batch, is agent r mod n's, as a
// VectorEnv of seats gives them. So the number of rows is a multiple of n. Weights and state carry the agent's name:
// "near/trunk.0.weight" (agent/per_agent.h); statistics, too: "near/loss". Thread rule: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parl/agent/algorithm.h"

namespace parl {

class Independent : public Algorithm {
 public:
  // One algorithm for each name, all of one kind. Names have no '/'.
  Independent(std::vector<std::string> agents, std::vector<std::unique_ptr<Algorithm>> algorithms);

  ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) override;
  ActOutput predict(const at::Tensor& obs) override;
  ActOutput act(const ActInput& in) override;
  LearnStats learn(const Batch& batch, int64_t agent_steps) override;
  Model& model() override { return algorithms_[0]->model(); }  // the first agent's
  int64_t learner_threads() const override;
  Weights get_weights() override;
  void set_weights(const Weights& weights) override;
  void play_for_evaluation(bool on) override;
  void interrupt_when(std::function<bool()> asked) override;
  Weights get_state() const override;
  void set_state(const Weights& state) override;

  const std::vector<std::string>& agents() const { return agents_; }
  Algorithm& algorithm_of(size_t agent) { return *algorithms_.at(agent); }

 private:
  at::Tensor rows_of(size_t agent, const at::Tensor& rows) const;
  ActOutput together(const std::vector<ActOutput>& parts) const;

  std::vector<std::string> agents_;
  std::vector<std::unique_ptr<Algorithm>> algorithms_;
};

}  // namespace parl
