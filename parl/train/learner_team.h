// LearnerTeam: what the training loop says to the other learners of its run. Without a group the team is this learner
// alone, and every function gives back what it was given.
//
// Thread rule: the learner's thread; all learners make the same calls in the same order. Throws parl::Error
// (LearnerLost when another learner is gone), at all of them where it is their settings or weights that differ.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parl/data/rollout.h"
#include "parl/train/checkpoint.h"
#include "parl/train/learner_group.h"
#include "parl/train/train_config.h"

namespace parl {

// What one learner has seen since the round before. A round ends when a batch is there.
struct LearnerNews {
  bool whole = true;    // there is a batch; false: a stop was asked for before that
  bool stop = false;    // a stop was asked for
  double seconds = 0;   // of this command
  std::string failure;  // why this learner can get no batch any more
  std::vector<Episode> episodes;
  std::vector<int64_t> lags;  // of the rollouts in the batch
  int64_t dropped_rollouts = 0;
  int64_t actors_replaced = 0;              // in all, by this command
  double env_seconds = 0, act_seconds = 0;  // since the round before
};
PARL_FIELDS(LearnerNews, whole, stop, seconds, failure, episodes, lags, dropped_rollouts, actors_replaced, env_seconds,
            act_seconds);

// What all of them have said.
struct LearnerRound {
  std::vector<LearnerNews> news;  // in the order of the ranks
  bool whole = true;              // all have a batch
  bool stop = false;              // one of them was asked to stop
  double seconds = 0;             // learner 0's
  int64_t actors_replaced = 0;
  std::string failure;  // of the first that has one
};

class LearnerTeam {
 public:
  LearnerTeam() = default;
  explicit LearnerTeam(std::shared_ptr<LearnerGroup> group) : group_(std::move(group)) {}

  int rank() const { return group_ ? group_->rank() : 0; }
  int size() const { return group_ ? group_->size() : 1; }
  bool alone() const { return !group_; }
  bool leads() const { return rank() == 0; }  // writes the run directory
  std::shared_ptr<LearnerGroup> group() const { return group_; }

  // Throws naming the settings that differ from learner 0's and may not.
  void require_same(const TrainConfig& config);
  LearnerRound exchange(LearnerNews mine);
  // Learner 0's.
  bool decide(bool value);
  void share(std::optional<Checkpoint>& checkpoint);
  Weights share(const Weights& weights);
  // Adds the other learners' actors and waiting rollouts to the checkpoint's, in the order of the ranks: that is the
  // checkpoint of one learner with all these actors.
  void gather(Checkpoint& checkpoint, int64_t actors_each);
  // Takes this learner's part of such a checkpoint.
  void take_part(Checkpoint& checkpoint, int64_t actors_each) const;
  // Throws when another learner's weights differ from learner 0's by a bit.
  void require_equal(const Weights& weights);

 private:
  std::shared_ptr<LearnerGroup> group_;
};

}  // namespace parl
