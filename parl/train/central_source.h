// CentralSource: rollouts from environments that hold no network: their actions are chosen here, in batches over all of
// them (GA3C: Babaeizadeh et al. 2017, arXiv 1611.06256; SEED RL: Espeholt et al. 2020, arXiv 1910.06591).
//
// One remote Simulator per actor, and one thread here that leads it through its rollouts: it asks for actions
// (central_queue.h), calls step() as if the simulator were local, writes row after row. `predictors` threads, each with
// an Algorithm of its own that never learns, answer in batches. So one call per step of an actor's environments is in
// flight for every actor, and weights do not travel.
//   free-running    actions come from the newest published weights, which may change within a rollout: its version is
//                   that of its oldest step, which is what --max-lag looks at; the logits are of the policy that acted
//   on_policy, deterministic   one version per rollout. Deterministic batches are lock-step: same seeds, same numbers
//   as
//                   with actors of their own, but for the rounding of other batch sizes
// A recurrent network's memory stays here, with the environments' rows: it goes along with each request, so that any
// predictor may answer, and is zero where an episode begins. The rollout stores the one before its first observation.
// Where the weights change within a rollout, the memory is that of the policies that acted.
// A simulator that fails (its process died in the middle of a step, its environment threw, it took too long) is
// replaced, with fresh streams, and its unfinished rollout begins again; see RolloutSource::Options::max_replacements.
// Thread rule: rollout_source.h's.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "parl/core/rng.h"
#include "parl/data/rollout_queue.h"
#include "parl/train/central_options.h"
#include "parl/train/central_queue.h"
#include "parl/train/published_weights.h"
#include "parl/train/replacements.h"
#include "parl/train/rollout_source.h"
#include "parl/train/simulator.h"

namespace parl {

class CentralSource : public RolloutSource {
 public:
  // Makes an Algorithm that acts; called once per predictor, in this thread.
  using PredictorFactory = std::function<std::unique_ptr<Algorithm>()>;

  // Creates all simulators (starts overlap). `env` is what they are of. Throws when one cannot be created.
  CentralSource(RemoteManager& manager, Options options, CentralOptions central,
                const std::vector<ActorConfig>& configs, const EnvSpec& env, const PredictorFactory& predictor);
  ~CentralSource() override;

  void restore(const std::vector<ActorState>& states, std::vector<Rollout> waiting) override;
  void start() override;
  void publish(int64_t version, Weights weights) override { weights_.publish(version, std::move(weights)); }
  std::optional<Rollout> next(const std::function<bool()>& give_up) override { return queue_.pop(give_up); }
  std::optional<Rollout> next_from(int actor, const std::function<bool()>& give_up) override {
    return queue_.pop_from(actor, give_up);
  }
  bool barrier(std::vector<ActorState>& states, std::vector<Rollout>& waiting) override;
  int64_t replaced() const override { return replacements_.count(); }
  size_t waiting() const override { return queue_.size(); }
  int actors() const override { return static_cast<int>(lanes_.size()); }
  // prediction_batch (rows of a forward pass), prediction_queue (share of the actors that a batch left waiting),
  // prediction_wait_ms (from asking to being taken); means. Deterministic runs: none.
  LearnStats take_statistics() override;
  void stop() override;

 private:
  // One actor: its simulator and where its next rollout begins. Its own thread's; the owner's while that waits.
  struct Lane {
    ActorConfig config;
    Remote<Simulator> simulator;
    std::vector<CounterRng> samplers;
    Array obs;          // [B, ...]: the observations to act on next
    at::Tensor memory;  // [B, S]: a recurrent network's before them; else undefined
    bool started = false;
    int64_t sequence = 0, last_version = -1;
  };
  void drive(int actor);
  // Empty: the source was stopped.
  std::optional<Rollout> make_rollout(Lane& lane, const Versioned<Weights>& weights);
  bool act(Lane& lane, const Versioned<Weights>& weights, Rollout& rollout, int64_t t, at::Tensor& action);
  void record(const SimulatorStep& step, Lane& lane, Rollout& rollout, int64_t t,
              std::vector<std::pair<int64_t, std::vector<std::byte>>>& finals) const;
  bool replace(Lane& lane, const std::exception& error);
  template <typename F>
  auto call(Lane& lane, F&& method);

  void predict(Algorithm& algorithm);
  void answer(Algorithm& algorithm, int64_t& version, const std::vector<PredictionRequest*>& batch);

  RemoteManager& manager_;
  const Options options_;
  const CentralOptions central_;
  const ModelSpec spec_;
  std::vector<std::unique_ptr<Algorithm>> algorithms_;  // of the predictors
  std::vector<Lane> lanes_;
  PublishedWeights weights_;
  PredictionQueue predictions_;
  RolloutQueue queue_;
  Replacements replacements_;
  std::vector<std::thread> threads_;
};

}  // namespace parl
