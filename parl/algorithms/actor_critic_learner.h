// The learning half of ActorCritic: replicas, passes, minibatches, the optimizer step, statistics. Internal to
// actor_critic.cc.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "parl/agent/algorithm.h"
#include "parl/agent/optimizer.h"
#include "parl/agent/schedule.h"
#include "parl/algorithms/actor_critic.h"
#include "parl/algorithms/gradient_reducer.h"
#include "parl/algorithms/policy_loss.h"
#include "parl/algorithms/thread_team.h"
#include "parl/core/rng.h"

namespace parl::internal {

// Value targets and advantages of every step of a batch, [B * T]; shared by all minibatches of one pass.
struct StepTargets {
  at::Tensor vs, advantage;
};

struct Normalization {
  double mean, factor;
};

// Part `part` of `parts` of a list; sizes differ by one at most.
std::vector<int64_t> part_of(const std::vector<int64_t>& list, int64_t part, int64_t parts);

// One replica and its share of the work. Thread rule: its team member's alone.
class GradientWorker {
 public:
  GradientWorker(Model& model, FlatParameters& parameters, const ActorCriticConfig& config, at::Device device)
      : model_(model), parameters_(parameters), config_(config), device_(device) {}

  // Forward and targets for the unrolls `index` of the batch. Unless `keep`, the gradient is added at once.
  void forward(const Batch& batch, const std::vector<int64_t>& index, const PolicyLossOptions& options, double scale,
               bool keep);
  // Targets of the unrolls `index` into columns over the whole batch, in the order of its steps.
  void find_targets(const Batch& batch, const std::vector<int64_t>& index, const PolicyLossOptions& options,
                    StepTargets& targets);
  // Forward and gradient, with these targets, of the single steps `index` (b * T + t) of the batch, or of its unrolls.
  void learn_steps(const Batch& batch, const StepTargets& targets, const std::vector<int64_t>& index,
                   const PolicyLossOptions& options, double scale);
  void learn_unrolls(const Batch& batch, const StepTargets& targets, const std::vector<int64_t>& index,
                     const PolicyLossOptions& options, double scale);
  // The gradients of what was kept, with advantages (A - mean) * factor.
  void backward(double mean, double factor, double scale);

  const LossSums& sums() const { return sums_; }
  FlatParameters& parameters() { return parameters_; }

 private:
  struct Piece {
    std::unique_ptr<Recording> recording;
    std::unique_ptr<PolicyLoss> loss;
  };
  // The network over the T + 1 observations of a piece's unrolls, and V(final observations). Only `record` leaves a
  // recording.
  struct Seen {
    std::unique_ptr<Recording> recording;
    PolicyValue output;
    at::Tensor final_value;
  };
  Seen look(const Batch& piece, bool record);
  // Into how many pieces `count` items of `rows` observations each are cut.
  int64_t pieces_of(int64_t count, int64_t rows) const;
  Piece forward_piece(const Batch& piece, const PolicyLossOptions& options);
  void backward_piece(Piece& piece, double scale);

  Model& model_;
  FlatParameters& parameters_;
  const ActorCriticConfig& config_;
  at::Device device_;
  LossSums sums_;
  std::vector<Piece> kept_;
};

class ActorCriticLearner {
 public:
  ActorCriticLearner(Model& model, const ActorCriticConfig& config, const ReplicaFactory& replicas, at::Device device);

  // Not owned; null: this learner is alone.
  void set_reducer(GradientReducer* reducer);
  LearnStats learn(const Batch& batch, int64_t agent_steps);
  Weights get_state() const;
  void set_state(const Weights& state);

 private:
  struct Totals {
    LossSums sums;
    double loss = 0, grad_norm = 0, clipped = 0;
    int64_t updates = 0, passes = 0;
  };
  // One optimizer step; false when target_kl forbids it.
  bool learn_minibatch(const Batch& batch, const std::vector<int64_t>& index, const PolicyLossOptions& options,
                       double lr, bool check_kl, Totals& totals);
  // `index`: unrolls, or steps.
  LossSums compute_gradients(const Batch& batch, const std::vector<int64_t>& index, const PolicyLossOptions& options,
                             double scale);
  LossSums unroll_gradients(const Batch& batch, const std::vector<int64_t>& index, const PolicyLossOptions& options,
                            double scale);
  void find_targets(const Batch& batch, const PolicyLossOptions& options);
  // Buffers are not shared with the replicas, as parameters are.
  void copy_buffers();
  LossSums sums() const;  // over the workers
  int64_t learners() const { return reducer_ ? reducer_->size() : 1; }
  // Replaces every value by its sum over all learners. Throws at all of them when one is not `finite`.
  void share(std::vector<double>& values, bool finite, const Batch& batch);
  LossSums share(const LossSums& mine, bool finite, const Batch& batch);
  Normalization normalization(const Batch& batch);  // over all learners
  // Adds the replicas' gradients to the main one's; gives the norm of the sum.
  double reduce_gradients();
  double gradient_norm();
  int64_t part_begin(int member) const;  // of the flat parameters
  static std::vector<int64_t> shuffled(CounterRng& rng, int64_t n);
  // The orders in which the shards' items go into minibatches; empty where there is but one minibatch.
  std::vector<std::vector<int64_t>> draw_orders(int64_t items);
  std::vector<int64_t> minibatch(const std::vector<std::vector<int64_t>>& orders, int64_t items, int64_t i) const;
  LearnStats statistics(const Totals& totals, const Batch& batch, double lr, double entropy_cost) const;
  [[noreturn]] void throw_nonfinite(const Batch& batch, const std::string& fallback) const;

  Model& model_;
  ActorCriticConfig config_;
  Schedule lr_, entropy_cost_;
  FlatParameters parameters_;
  FlatOptimizer optimizer_;
  std::vector<std::shared_ptr<Model>> replica_models_;
  std::vector<std::unique_ptr<FlatParameters>> replica_parameters_;
  std::vector<GradientWorker> workers_;
  ThreadTeam team_;
  GradientReducer* reducer_ = nullptr;
  std::vector<CounterRng> rngs_;    // of the shards of this learner's batch
  std::vector<int64_t> positions_;  // of all learners' streams after the newest learn(); empty: alone
  StepTargets targets_;             // of this pass or of all, where minibatches do not find their own
  bool own_targets_;                // minibatches find their own
  int64_t learn_calls_ = 0;
};

}  // namespace parl::internal
