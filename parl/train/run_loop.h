// RunLoop: what every training goes through, whatever collects and learns: the run directory and its lock, continuing,
// logging, metrics, evaluations, checkpoints, reasons to stop, the other learners, the summary. trainer.cc derives from
// it the training of actors' rollouts; a training of another kind (es_trainer.cc) derives its own and is named in
// AlgorithmEntry::train.
//
//   construct: all of the above is ready, progress_ and the algorithm as the checkpoint has them
//   run():     start(), then collect(), learn(), publish() again and again; stop()
// Thread rule: one thread constructs, runs and destroys. Errors go to run()'s caller; what was learnt is saved first
// where that can be done.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "parl/core/clock.h"
#include "parl/core/stats.h"
#include "parl/train/checkpoint.h"
#include "parl/train/learner_team.h"
#include "parl/train/run_dir.h"
#include "parl/train/run_log.h"
#include "parl/train/trainer.h"

namespace parl {

class RemoteManager;

class RunLoop {
 public:
  // `hooks` outlives the loop.
  // `group`: the learners of this run (learners.h); null when this one is alone.
  RunLoop(const TrainConfig& config, const TrainHooks& hooks, std::shared_ptr<LearnerGroup> group = nullptr);
  virtual ~RunLoop();
  RunLoop(const RunLoop&) = delete;
  RunLoop& operator=(const RunLoop&) = delete;

  TrainSummary run();

 protected:
  virtual void start() = 0;
  // Gets what the next update learns from, and says in news_ what it saw. False: a stop was asked for, and this is not
  // complete.
  virtual bool collect() = 0;
  // One update. It moves progress_.steps and progress_.updates, and tells log_ (null but in learner 0) and the hooks.
  virtual void learn() = 0;
  // The weights have changed, and the run goes on.
  virtual void publish() {}
  virtual void stop() = 0;
  // What only the collecting side knows; at_rest: between two updates. False: there can be no checkpoint now.
  virtual bool save_workers(Checkpoint& /*checkpoint*/) { return true; }
  // Whether a collect() that was stopped leaves everything as it was before it.
  virtual bool rests_when_stopped() const { return true; }
  virtual int64_t replaced() const = 0;
  virtual double queue_fill() const { return 0; }

  bool asked_to_stop() const { return hooks_.stop && *hooks_.stop; }
  // Whether what takes long should end now: a stop was asked for, or the time of --until-seconds is up and what was
  // begun then had some seconds to become whole.
  bool leave_off() const;
  void account(const Episode& episode);
  // Where objects live in workers that dial in: says so, and waits for the first. Throws when a stop is asked for.
  void wait_for_workers(const RemoteManager& manager) const;
  double elapsed() const { return seconds_since(start_); }

  TrainConfig config_;
  const TrainHooks& hooks_;
  LearnerTeam team_;
  EnvSpec env_spec_;
  ModelSpec model_spec_;
  std::unique_ptr<Algorithm> algorithm_;
  RunDir run_dir_;
  std::optional<Checkpoint> restored_;  // until the derived constructor has taken the workers' part
  Progress progress_;
  std::unique_ptr<RunLog> log_;  // of learner 0
  LearnerNews news_;             // of this learner, since the last round
  PhaseSeconds phases_;          // of this command

 private:
  void announce(const TrainConfig& given) const;
  void join_team();
  void restore();
  void init_from(const std::string& checkpoint);
  bool collect_round();
  [[noreturn]] void give_up(const std::string& why, const std::exception_ptr& own);
  void absorb(const LearnerNews& news);
  void after_update();
  std::string why_stop() const;
  void evaluate_now();
  void checkpoint_now(bool at_rest = true);
  RunCounters counters() const;
  void finish_row(const std::string& reason);
  TrainSummary summary(const std::string& reason) const;
  // The first multiple of `every` after the present step.
  int64_t next_multiple(int64_t every) const { return every > 0 ? (progress_.steps / every + 1) * every : 0; }

  static constexpr size_t kReturnWindow = 100;
  int64_t next_log_ = 0, next_checkpoint_ = 0, next_eval_ = 0;  // agent steps at which each is due
  bool save_best_ = false;                                      // the newest evaluation is the best one
  WindowStat returns_{kReturnWindow}, lengths_{kReturnWindow};
  Clock::time_point start_ = Clock::now();
  int64_t first_steps_ = 0;     // at the start of this command
  double earlier_seconds_ = 0;  // of earlier commands
  int64_t earlier_replaced_ = 0;
  LearnerRound round_;  // the last one; its news are absorbed
  RunningStat lag_;     // of this command, per rollout
};

}  // namespace parl
