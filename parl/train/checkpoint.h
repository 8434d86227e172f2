// Checkpoints: everything that the next update depends on, written atomically.
//
// A run directory's checkpoints/ holds one folder per checkpoint, step_000001500000/, with
//   weights.safetensors   the network by parameter name, for any tool
//   state.bin             the rest: optimizer, counters, RNG, statistics; in deterministic runs also each actor's state
//   and
//                         the finished rollouts in flight
//   config.json           the run's resolved settings at that time
//   manifest.txt          size and checksum of each file
//   replay.safetensors    the replay buffer of algorithms that have one, in the newest checkpoint alone: written
//   without
//                         a second copy in memory; older ones lose theirs when a newer one is whole, best/ has none; it
//                         is not in the manifest
// A folder is written under a temporary name, flushed to disk and renamed: it is whole or it is not there. One whose
// bytes a disk has lost or changed later is noticed by its manifest; a run then goes on from the one before, and it is
// set aside as damaged_step_000001500000/. The newest `keep` stay, and beside them best/ (a copy of the best one by
// evaluation or training return). Thread rule: one writer per run directory. Throws parl::Error naming file and cause
// (a full disk by that name); older checkpoints are untouched then.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parl/agent/weights.h"
#include "parl/core/fields.h"
#include "parl/data/rollout.h"
#include "parl/train/actor.h"
#include "parl/train/row_state.h"

namespace parl {

// Counters and statistics of a run.
struct Progress {
  int64_t steps = 0;    // agent steps learnt from
  int64_t updates = 0;  // = the version of the weights
  int64_t episodes = 0;
  int64_t dropped_rollouts = 0;  // older than max_lag
  int64_t actors_replaced = 0;
  int64_t generation = 0;                // how often the run was continued with fresh environments
  double seconds = 0;                    // of training, over all commands
  std::vector<double> returns, lengths;  // of the last 100 episodes
  double best_return = 0;
  bool has_best = false;
  Moments returns_so_far;    // of the discounted returns, for normalised rewards
  RowState row;              // since the last whole row of metrics.csv
  bool partial_row = false;  // the row at `steps` only ends the curve: cut away when the run goes on
};
PARL_FIELDS(Progress, steps, updates, episodes, dropped_rollouts, actors_replaced, generation, seconds, returns,
            lengths, best_return, has_best, returns_so_far, row, partial_row);

inline constexpr const char* kReplayFile = "replay.safetensors";

struct Checkpoint {
  Progress progress;
  Weights weights;
  Weights algorithm_state;
  bool deterministic = false;
  std::vector<ActorState> actors;             // deterministic runs
  std::vector<Rollout> waiting;               // deterministic runs: the finished batch in flight
  std::string config;                         // JSON
  std::map<std::string, std::string> policy;  // policy_metadata(): goes into the weights' file, for load_policy()
  std::function<void(const std::string& path)> save_replay;  // on saving: writes kReplayFile; empty: there is none
  std::string path;                                          // of a loaded one: its folder
};
PARL_FIELDS(Checkpoint, progress, weights, algorithm_state, deterministic, actors, waiting, config, policy);

// Writes checkpoints/step_<steps>/ under `run_dir` and gives its path.
std::string save_checkpoint(const std::string& run_dir, const Checkpoint& checkpoint);
// Throws DamagedCheckpoint (checkpoint_files.h) when its bytes are not those that were written.
Checkpoint load_checkpoint(const std::string& path);
// The newest checkpoint of a run that can be read; empty: there is none. Damaged ones are set aside, with a warning;
// throws DamagedCheckpoint when all are.
std::optional<Checkpoint> load_latest_checkpoint(const std::string& run_dir);
// What playing needs: weights, config, policy and progress.steps. Reads what earlier versions of this program wrote,
// too.
Checkpoint load_checkpoint_weights(const std::string& path);
// The newest whole checkpoint of a run, or empty.
std::optional<std::string> latest_checkpoint(const std::string& run_dir);
// A run directory (its best/ or, failing that, newest checkpoint), or a checkpoint folder itself.
std::string find_checkpoint(const std::string& run_or_checkpoint, bool prefer_best);
// Makes best/ a copy of the checkpoint at `path` (hard links where the file system has them).
void mark_best(const std::string& run_dir, const std::string& path);
// Removes all but the newest `keep`, the replay buffers of all but the newest, and unfinished temporary folders.
void prune_checkpoints(const std::string& run_dir, int64_t keep);

}  // namespace parl
