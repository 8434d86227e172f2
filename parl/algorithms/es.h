// Es: evolution strategies (Salimans et al. 2017, arXiv 1703.03864): the parameters themselves are tried out.
//
// One generation: n pairs of perturbed networks theta +- sigma eps_i (mirrored sampling) play episodes. Their 2n
// returns become centred ranks w in [-0.5, 0.5], and
//   g = 1 / (2n) sum_i (w_i+ - w_i-) eps_i        (the paper's estimate but for a factor, as in its authors' program)
//   theta: one step of Adam against  -g + weight_decay theta
// The noise eps_i is a piece of a table of standard normal numbers that everybody makes from the run's seed; where
// piece i of a generation begins is computed from the seed, too. So only (generation, pair) and returns travel. It
// works with any Model; buffers are left as they are.
//
// train/es_worker.h evaluates a generation on remote workers; learn() does not exist here: update() learns from
// returns. Thread rule: one thread at a time.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parl/agent/algorithm.h"
#include "parl/agent/optimizer.h"
#include "parl/core/config.h"
#include "parl/core/fields.h"

namespace parl {

struct EsConfig {
  int64_t pairs = 32;
  double sigma = 0.05;
  double lr = 0.02;
  std::string lr_schedule;
  double eps = 1e-8;
  double weight_decay = 0.005;
  int64_t episodes = 1;
  bool sample_actions = false;
  int64_t noise_table = 4'000'000;

  // Throws parl::Error naming the field.
  void check() const;
};
PARL_CONFIG(EsConfig, (pairs, "mirrored pairs of perturbed networks in a generation"),
            (sigma, "deviation of the noise on every parameter"), (lr, "Adam's learning rate"),
            (lr_schedule, "learning rate over agent steps, '0:0.02,3e6:0' (linear between); empty: lr throughout"),
            (eps, "Adam's epsilon"), (weight_decay, "weight of 0.5 |parameters|^2 in what is minimised"),
            (episodes, "episodes that each perturbed network plays"),
            (sample_actions, "actions are drawn from the policy; else they are the greedy ones"),
            (noise_table, "numbers in the table of noise (4 bytes each, in every worker)"));

// value[i] becomes its rank among all, from -0.5 (least) to 0.5 (greatest); equal values share the mean of their ranks.
// One value alone is 0.
std::vector<double> centred_ranks(std::span<const double> values);

// Standard normal numbers from a seed, the same on every machine but for the last bits of log and cos.
class NoiseTable {
 public:
  NoiseTable(uint64_t seed, int64_t size);
  // The numbers of pair `pair` of `generation`: `count` of them from a place of the table that the seed decides.
  // Throws parl::Error naming noise_table when the table has fewer.
  std::span<const float> piece(int64_t generation, int64_t pair, int64_t count) const;

 private:
  uint64_t seed_;
  std::vector<float> values_;
};

struct PairReturns {
  double plus = 0, minus = 0;  // of theta + sigma eps and theta - sigma eps
};

class Es : public Algorithm {
 public:
  explicit Es(std::shared_ptr<Model> model, EsConfig config = {}, uint64_t seed = 0);
  ~Es() override;

  ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) override;
  ActOutput predict(const at::Tensor& obs) override;
  // Throws: there is nothing to learn in a batch of steps.
  LearnStats learn(const Batch& batch, int64_t agent_steps) override;

  // The network becomes theta + sign * sigma * eps of that pair (sign: 1 or -1), until settle() or set_weights().
  void perturb(int64_t generation, int64_t pair, int sign);
  void settle();  // theta again

  // One step from the returns of this generation's pairs, in order. Statistics: return_mean, return_max (of the
  // generation), grad_norm (of g), weight_norm, updates, lr. Throws NonFiniteError for a return that is NaN or inf.
  LearnStats update(std::span<const PairReturns> returns, int64_t agent_steps);
  int64_t generation() const { return generation_; }  // updates made so far

  Model& model() override { return *model_; }
  void set_weights(const Weights& weights) override;
  // "optimizer/...", "es/generation".
  Weights get_state() const override;
  void set_state(const Weights& state) override;
  // g for these returns, laid out as the model's parameters one after the other; [parameters] on the CPU.
  at::Tensor gradient_estimate(int64_t generation, std::span<const PairReturns> returns);

 private:
  const NoiseTable& noise();
  FlatOptimizer& optimizer() const;
  // Calls f(flat, noise, count) for every parameter's run of floats in a flat buffer and its part of a piece of noise.
  template <typename F>
  void each_run(F&& f) const;

  std::shared_ptr<Model> model_;
  EsConfig config_;
  uint64_t seed_;
  std::unique_ptr<FlatParameters> parameters_;
  int64_t count_ = 0;  // parameters without padding
  at::Tensor theta_;   // a copy of the parameters while they are perturbed
  int64_t generation_ = 0;
  std::unique_ptr<NoiseTable> noise_;                 // made on first use: who only plays needs none
  mutable std::unique_ptr<FlatOptimizer> optimizer_;  // likewise
};

}  // namespace parl
