// Pg: REINFORCE (Williams 1992, doi 10.1007/BF00992696) with discounted returns-to-go, one gradient step per batch:
//
//   loss = mean over the steps learnt of  -log pi(a) (G - b) + value_cost 0.5 (G - V)^2 - entropy_cost H
//   G[t] = r[t] + gamma G[t+1],  after the unroll's last step and at ends as `baseline` says:
//
//   baseline  b                                   truncated episode           unroll ends before the episode
//   value     V(obs), learnt by the value head    G bootstraps V(final obs)   G bootstraps V(obs[T])
//   mean      the mean of G; divided by its       G ends: the return up to    the steps of that episode have no G: they
//             deviation                           the limit                   are left out (share_learnt)
//   none      0                                   as mean                     as mean
//
// A terminated episode ends G everywhere (also where both flags are set). Nothing waits for the next unroll: it is made
// by another policy. Without a learnt value use unrolls that are long beside an episode, else only short episodes
// count. Batches must be on-policy: train it with max_lag 0. The optimizer (Adam) comes into being with the first
// learn(), get_state() or set_state(). Throws NonFiniteError for NaN or inf, before the weights are touched by it.
// Thread rule: one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "parl/agent/algorithm.h"
#include "parl/algorithms/policy_loss.h"
#include "parl/core/config.h"
#include "parl/core/fields.h"

namespace parl {

enum class Baseline { kValue, kMean, kNone };
PARL_CONFIG_ENUM(Baseline, (kValue, "value"), (kMean, "mean"), (kNone, "none"));

struct PgConfig {
  double gamma = 0.99;
  Baseline baseline = Baseline::kValue;
  bool normalize_advantage = true;
  double value_cost = 0.5;
  double entropy_cost = 0;
  double lr = 1e-3;
  std::string lr_schedule;
  double eps = 1e-8;
  double max_grad_norm = 0.5;

  // Throws parl::Error naming the field.
  void check() const;
};
PARL_CONFIG(
    PgConfig, (gamma, "discount per agent step"),
    (baseline,
     "what is taken from the returns: value (learnt, and bootstraps where an episode is cut), mean (and divides "
     "by the deviation), none"),
    (normalize_advantage, "with baseline value: G - V to mean 0, deviation 1 within the batch"),
    (value_cost, "weight of 0.5 (G - V)^2, with baseline value"), (entropy_cost, "weight of the entropy bonus"),
    (lr, "Adam's learning rate"),
    (lr_schedule,
     "learning rate over agent steps: '0:1e-3,3e6:0' (linear between) or 'step 0:1e-3,2e6:5e-4'; empty: lr "
     "throughout"),
    (eps, "Adam's epsilon"), (max_grad_norm, "bound of the global gradient norm; 0: none"));

// The returns-to-go of a batch, [B, T] each: G, and whether it is known. `value` [B, T+1] and `final_value` [F] (in the
// order of batch.final_index) bootstrap; undefined: nothing does. Pure.
struct ReturnsToGo {
  at::Tensor returns;  // float32
  at::Tensor known;    // bool
};
ReturnsToGo returns_to_go(const Batch& batch, double gamma, const at::Tensor& value = {},
                          const at::Tensor& final_value = {});

class Pg : public Algorithm {
 public:
  // `device`: "cpu", "cuda:0", ...
  explicit Pg(std::shared_ptr<Model> model, PgConfig config = {}, const std::string& device = "cpu");
  ~Pg() override;

  ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) override;
  ActOutput predict(const at::Tensor& obs) override;
  // Statistics, in this order: loss, policy_loss, value_loss (per step learnt), entropy, return_to_go (mean G),
  // share_learnt, grad_norm (before clipping), updates (0 when no step has a known return), lr. All but the last four
  // are there only when there was an update.
  LearnStats learn(const Batch& batch, int64_t agent_steps) override;

  Model& model() override { return *model_; }
  // "optimizer/...".
  Weights get_state() const override;
  void set_state(const Weights& state) override;

 private:
  struct Learner;
  // The steps with a known return, as b * T + t, and what they are learnt with; [n] each.
  struct Targets {
    at::Tensor steps, returns, advantage;
  };
  Learner& learner() const;
  at::Tensor values(const at::Tensor& obs) const;
  Targets targets(const Batch& batch) const;
  LossSums find_gradient(const Batch& batch, const Targets& targets, const PolicyLossOptions& options, double scale);

  std::shared_ptr<Model> model_;
  PgConfig config_;
  std::string device_;
  mutable std::unique_ptr<Learner> learner_;
};

}  // namespace parl
