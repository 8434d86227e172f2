#include "parl/algorithms/independent.h"

#include <torch/torch.h>

#include <algorithm>

#include "parl/agent/per_agent.h"
#include "parl/core/check.h"

namespace parl {

Independent::Independent(std::vector<std::string> agents, std::vector<std::unique_ptr<Algorithm>> algorithms)
    : agents_(std::move(agents)), algorithms_(std::move(algorithms)) {
  PARL_CHECK(!agents_.empty() && agents_.size() == algorithms_.size(), "{} agents and {} learners", agents_.size(),
             algorithms_.size());
  for (const std::string& agent : agents_)
    PARL_CHECK(!agent.empty() && agent.find('/') == std::string::npos, "an agent cannot be called '{}'", agent);
}

at::Tensor Independent::rows_of(size_t agent, const at::Tensor& rows) const {
  const auto n = static_cast<int64_t>(agents_.size());
  PARL_CHECK(rows.size(0) % n == 0, "{} rows are no multiple of the {} agents", rows.size(0), n);
  return rows.slice(0, static_cast<int64_t>(agent), rows.size(0), n).contiguous();
}

ActOutput Independent::together(const std::vector<ActOutput>& parts) const {
  const auto merge = [&](auto member) {
    if (!(parts[0].*member).defined()) return at::Tensor();
    std::vector<at::Tensor> list;
    for (const ActOutput& part : parts) list.push_back(part.*member);
    return torch::stack(list, 1).flatten(0, 1);
  };
  return {merge(&ActOutput::action), merge(&ActOutput::logits), merge(&ActOutput::value), merge(&ActOutput::state)};
}

ActOutput Independent::act(const ActInput& in) {
  std::vector<ActOutput> parts;
  for (size_t i = 0; i < agents_.size(); ++i) {
    const auto own = [&](const at::Tensor& rows) { return rows.defined() ? rows_of(i, rows) : rows; };
    parts.push_back(algorithms_[i]->act({own(in.obs), own(in.uniforms), own(in.state)}));
  }
  return together(parts);
}

ActOutput Independent::sample(const at::Tensor& obs, const at::Tensor& uniforms) { return act({obs, uniforms}); }

ActOutput Independent::predict(const at::Tensor& obs) { return act({obs}); }

LearnStats Independent::learn(const Batch& batch, int64_t agent_steps) {
  const auto n = static_cast<int64_t>(agents_.size());
  PARL_CHECK(batch.unrolls() % n == 0, "{} unrolls are no multiple of the {} agents", batch.unrolls(), n);
  LearnStats all;
  for (int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    for (auto& [name, value] : algorithms_[k]->learn(batch.select(torch::arange(i, batch.unrolls(), n)), agent_steps))
      all.emplace_back(agents_[k] + "/" + name, value);
  }
  return all;
}

int64_t Independent::learner_threads() const {
  int64_t most = 1;
  for (const auto& algorithm : algorithms_) most = std::max(most, algorithm->learner_threads());
  return most;
}

Weights Independent::get_weights() {
  Weights all;
  for (size_t i = 0; i < agents_.size(); ++i) append_of_agent(all, agents_[i], algorithms_[i]->get_weights());
  return all;
}

void Independent::set_weights(const Weights& weights) {
  for (size_t i = 0; i < agents_.size(); ++i) algorithms_[i]->set_weights(weights_of_agent(weights, agents_[i]));
}

void Independent::interrupt_when(std::function<bool()> asked) {
  for (const auto& algorithm : algorithms_) algorithm->interrupt_when(asked);
}

void Independent::play_for_evaluation(bool on) {
  for (const auto& algorithm : algorithms_) algorithm->play_for_evaluation(on);
}

Weights Independent::get_state() const {
  Weights all;
  for (size_t i = 0; i < agents_.size(); ++i) append_of_agent(all, agents_[i], algorithms_[i]->get_state());
  return all;
}

void Independent::set_state(const Weights& state) {
  for (size_t i = 0; i < agents_.size(); ++i) algorithms_[i]->set_state(part_of_agent(state, agents_[i]));
}

}  // namespace parl
