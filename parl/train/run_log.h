// RunLog: between the training loop and everything that records it: metrics.csv, TensorBoard, the status line.
//
// Averages what happened between two rows (learning statistics, lag, user scalars of episodes). In deterministic runs
// all columns but those of wall time (seconds, steps_per_s, *_share, queue_fill, rss_mb) are bit-identical for equal
// seeds. Thread rule: the learner's thread. Throws parl::Error when the disk refuses.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parl/agent/algorithm.h"
#include "parl/env/env.h"
#include "parl/train/evaluate.h"
#include "parl/train/row_state.h"
#include "parl/train/run_dir.h"
#include "parl/train/train_config.h"

namespace parl {

struct PhaseSeconds {
  double env = 0, act = 0, learn = 0;  // env and act are summed over actors
  double wait = 0;                     // the learner waiting for rollouts
};

struct RunCounters {
  int64_t steps = 0, frames = 0, updates = 0, episodes = 0, episodes_in_mean = 0;
  double return_mean = 0, length_mean = 0;
  int64_t dropped_rollouts = 0, actors_replaced = 0;
  double queue_fill = 0;  // waiting rollouts per actor, 0..1
  double seconds = 0;
  PhaseSeconds phases;
};

class RunLog {
 public:
  // Where a run continues; the defaults are a new one.
  struct Start {
    int64_t steps = 0;       // status and steps/s count from here
    int64_t rows_until = 0;  // rows of later steps are cut away
    double seconds = 0;      // of earlier commands
    RowState row;            // gathered since the last row
  };
  RunLog(const RunDir& dir, const TrainConfig& config, const Start& start, bool show_status);
  ~RunLog();

  void add_episode(const Episode& episode);
  void add_update(const LearnStats& stats);
  void add_lag(int64_t lag);
  void add_eval(const EvalSummary& eval);
  const RowState& row() const;

  void write_row(const RunCounters& counters);
  int64_t row_steps() const;               // of the newest row; of the start before there is one
  void show(const RunCounters& counters);  // the status line, when it is due
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The same run continued with settings that change what it learns (network, environment, algorithm, seed) is an error;
// other differences are logged. `saved`: config.json's text.
void check_continues(const std::string& saved, const TrainConfig& config);

// Writes a batch and the weights for a post-mortem.
void save_batch_dump(const std::string& path, const Batch& batch, const Weights& weights, const std::string& message);

}  // namespace parl
