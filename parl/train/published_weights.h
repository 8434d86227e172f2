// PublishedWeights: the weights that actors may act with, from the learner to the threads that call the actors.
//
// Which version rollout `sequence` of an actor is made under: rollout_source.h. Deterministic runs keep the last two
// versions, others the newest. Thread rule: any thread. stop() wakes everybody.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "parl/agent/weights.h"
#include "parl/train/rollout_source.h"
#include "parl/wire/versioned.h"

namespace parl {

class PublishedWeights {
 public:
  explicit PublishedWeights(const RolloutSource::Options& options)
      : deterministic_(options.deterministic), on_policy_(options.on_policy), first_version_(options.first_version) {}

  // Versions rise by one.
  void publish(int64_t version, Weights weights);
  // Waits for the weights that rollout `sequence` is made with; the actor's last one was made with `last_version`
  // (-1: none). Empty: stopped.
  std::optional<Versioned<Weights>> wait_for(int64_t sequence, int64_t last_version);
  // The newest; throws when nothing was published.
  Versioned<Weights> newest() const;
  void stop();
  bool stopped() const;

 private:
  const bool deterministic_, on_policy_;
  const int64_t first_version_;
  mutable std::mutex mutex_;
  std::condition_variable published_;
  std::deque<Versioned<Weights>> versions_;  // newest at the back
  bool stopping_ = false;
};

}  // namespace parl
