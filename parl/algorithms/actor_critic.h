// ActorCritic: what IMPALA, APPO, A2C and PPO have in common: a policy and a value from one network, a batch of
// unrolls, targets and advantages, passes over minibatches. The algorithms are this class with their own settings
// (impala.h, a2c.h, ppo.h). What is minimised: policy_loss.h; targets: vtrace.h.
//
// One learn() = `epochs` passes over the batch in `minibatches`, one optimizer step each. Of what they consist:
//   unrolls  whole unrolls in random order; values, ratios, targets are recomputed for each minibatch, or, without
//            recompute_targets, targets are those of the whole batch before the first pass
//   steps    single steps in random order, as PPO has them; values, ratios and targets of the whole batch are
//            recomputed at the start of each pass (one more forward) or of the first one only (recompute_targets);
//            advantages are normalised over the whole batch. Minibatches are less correlated, so few environments
//            suffice; feed-forward networks only
//   auto     steps, but unrolls for a network with a memory
// A network with a memory (agent/recurrent.h) learns from whole unrolls, each from the memory that its rollout stored;
// gradients go back through time to the unroll's beginning.
// Each minibatch is split over `learner_threads` replicas that read the same parameters; their gradients are added in
// the order of the replicas. Pieces of at most `micro_batch` steps go through the network at a time. Neither changes
// the result but for float rounding, and for a given number of threads the result is reproducible bit by bit. The
// optimizer comes into being with the first learn(), get_state() or set_state(). Throws NonFiniteError
// (agent/nonfinite.h) for NaN or inf, before the weights are touched by it. Thread rule: one thread at a time.
//
// With a GradientReducer, `size` learners do this together, each with a batch of the same size: what a minibatch
// consists of is spread over them, and gradients, their norm, the means of loss_reduction and normalize_advantage,
// target_kl and the statistics are those of all. NaN at one of them stops all: NonFiniteError there, Error elsewhere.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "parl/agent/algorithm.h"
#include "parl/algorithms/gradient_reducer.h"
#include "parl/core/config.h"
#include "parl/core/fields.h"

namespace parl {

enum class Reduction { kSum, kMean };
PARL_CONFIG_ENUM(Reduction, (kSum, "sum"), (kMean, "mean"));
enum class OptimizerKind { kRmsprop, kAdam };
PARL_CONFIG_ENUM(OptimizerKind, (kRmsprop, "rmsprop"), (kAdam, "adam"));
enum class MinibatchOf { kUnrolls, kSteps, kAuto };
PARL_CONFIG_ENUM(MinibatchOf, (kUnrolls, "unrolls"), (kSteps, "steps"), (kAuto, "auto"));
enum class Estimator { kVtrace, kGae };

// Every setting of the family. An algorithm's config derives from it, sets its defaults and lists the fields that are
// its user's.
struct ActorCriticConfig {
  Estimator estimator = Estimator::kVtrace;
  double gamma = 0.99;
  double lambda = 1.0;
  double rho_clip = 1.0;
  double c_clip = 1.0;
  double pg_rho_clip = 1.0;
  double value_cost = 0.5;
  double entropy_cost = 0.01;
  std::string entropy_schedule;
  Reduction loss_reduction = Reduction::kSum;
  double max_grad_norm = 40.0;

  OptimizerKind optimizer = OptimizerKind::kRmsprop;
  double lr = 6e-4;
  std::string lr_schedule;
  double eps = 0.01;
  double rmsprop_alpha = 0.99;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;

  int64_t epochs = 1;
  int64_t minibatches = 1;
  MinibatchOf minibatch_of = MinibatchOf::kUnrolls;
  bool recompute_targets = true;
  double clip = 0.0;
  double target_kl = 0.0;
  bool normalize_advantage = false;
  int64_t shuffle_seed = 0;

  int64_t learner_threads = 1;
  int64_t micro_batch = 0;

  // Nobody's setting: the batch consists of so many equal parts, one after the other, each shuffled by itself, and
  // every minibatch takes as much of each. So one learner computes what `shards` learners with a part each compute.
  int64_t shards = 1;

  // Throws parl::Error naming the field.
  void check() const;
  // Decides what is left open (auto) for the network that is learnt. ActorCritic does it with its own copy.
  void settle(Model& model);
};

// The items of a PARL_CONFIG list that algorithms share.
#define PARL_ACTOR_CRITIC_LOSS_FIELDS                                                                      \
  (gamma, "discount per agent step"), (value_cost, "weight of 0.5 (target - V)^2"),                        \
      (entropy_cost, "weight of the entropy bonus"),                                                       \
      (entropy_schedule, "entropy cost over agent steps, as lr-schedule; empty: entropy-cost throughout"), \
      (loss_reduction, "of the loss over the steps of a minibatch"),                                       \
      (max_grad_norm, "bound of the global gradient norm (40 suits sums of 500-1,000 steps, 0.5 means); 0: none")
#define PARL_ACTOR_CRITIC_OPTIMIZER_FIELDS                                                                      \
  (optimizer, "which optimizer"), (lr, "learning rate"),                                                        \
      (lr_schedule,                                                                                             \
       "learning rate over agent steps: '0:6e-4,3e6:0' (linear between) or 'step 0:1e-3,2e7:5e-4'; empty: lr "  \
       "throughout"),                                                                                           \
      (eps, "epsilon of the optimizer, outside the square root as in PyTorch"),                                 \
      (rmsprop_alpha, "RMSProp's decay of the squared gradient"), (adam_beta1, "Adam's decay of the gradient"), \
      (adam_beta2, "Adam's decay of the squared gradient")
#define PARL_ACTOR_CRITIC_PASSES_FIELDS                                                                               \
  (epochs, "passes over each batch"), (minibatches, "optimizer steps per pass: the batch is cut into so many parts"), \
      (minibatch_of,                                                                                                  \
       "what a minibatch is drawn from: whole unrolls, or single steps (targets once per pass); auto: steps, but "    \
       "unrolls for a network with a memory"),                                                                        \
      (recompute_targets,                                                                                             \
       "targets anew for every pass (minibatches of unrolls: for each), instead of those before the first pass"),     \
      (target_kl,                                                                                                     \
       "ends the passes over a batch once KL(behaviour, current) exceeds it; the first pass is always made; 0: "      \
       "never"),                                                                                                      \
      (shuffle_seed, "seed of the shuffling into minibatches")
#define PARL_ACTOR_CRITIC_WORK_FIELDS                                                                            \
  (normalize_advantage, "advantages to mean 0, deviation 1 within each minibatch (of steps: within the batch)"), \
      (learner_threads, "threads that share the work of each minibatch"),                                        \
      (micro_batch, "observations that go through the network at a time; 0: as the model prefers")

namespace internal {
class ActorCriticLearner;
}

// Makes further models like the learner's; needed when learner_threads > 1.
using ReplicaFactory = std::function<std::shared_ptr<Model>()>;
// The same from a factory of the registry.
inline ReplicaFactory replicas_of(ModelFactory factory, ModelSpec spec) {
  return [factory = std::move(factory), spec = std::move(spec)] { return factory(spec); };
}

class ActorCritic : public Algorithm {
 public:
  // `device`: "cpu", "cuda:0", ...
  explicit ActorCritic(std::shared_ptr<Model> model, ActorCriticConfig config = {}, ReplicaFactory replicas = {},
                       const std::string& device = "cpu");
  ~ActorCritic() override;

  ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) override;
  ActOutput predict(const at::Tensor& obs) override;
  ActOutput act(const ActInput& in) override;
  // agent_steps: collected so far; the schedules depend on it. Statistics, in this order: loss, policy_loss, value_loss
  // (per step), entropy, kl, rho_mean, rho_max_deviation, rho_clipped, c_clipped, ratio_clipped (shares),
  // explained_variance, grad_norm (before clipping), grad_clipped (share of updates), updates, passes, lr,
  // entropy_cost, policy_lag_min/mean/max (learn() calls made before this one minus the version that acted).
  // What the batch shows goes into the network's statistics of observations, if it has any (models/normalized.h).
  LearnStats learn(const Batch& batch, int64_t agent_steps) override;

  // From now on every learn() is one with the reducer's other learners, whose weights and state must be equal.
  void set_reducer(std::shared_ptr<GradientReducer> reducer);

  Model& model() override { return *model_; }
  int64_t learner_threads() const override { return config_.learner_threads; }
  // "optimizer/...", "counters" [learn calls], "shuffle/position" [learners, or shards].
  Weights get_state() const override;
  void set_state(const Weights& state) override;

 private:
  internal::ActorCriticLearner& learner() const;

  std::shared_ptr<Model> model_;
  ActorCriticConfig config_;
  ReplicaFactory replicas_;
  std::string device_;
  std::shared_ptr<GradientReducer> reducer_;
  mutable std::unique_ptr<internal::ActorCriticLearner> learner_;
};

}  // namespace parl
