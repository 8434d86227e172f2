// The main job: remote actors collect, one learner learns, everything is recorded in the run directory.
//
//   TrainConfig config;                      // or filled from flags, a preset, a file
//   config.env = "CartPole-v1";
//   TrainSummary s = train(config);
//
// The same call continues a run whose directory has a checkpoint. Ctrl-C is the caller's: set *hooks.stop and the run
// ends cleanly with a checkpoint. Thread rule: train() and the hooks run in the caller's thread; it makes the actors'
// driver threads and ends them. Throws parl::Error (RemoteError, NonFiniteError): what was learnt up to the last
// checkpoint is on disk then.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "parl/agent/algorithm.h"
#include "parl/env/env.h"
#include "parl/train/actor.h"
#include "parl/train/train_config.h"

namespace parl {

struct TrainSummary {
  std::string run;
  std::string stop_reason;  // steps | until_return | until_seconds | interrupted
  int64_t steps = 0;        // agent steps in total, earlier commands included
  int64_t frames = 0;       // emulator frames
  double seconds = 0;       // of this command's training loop
  double steps_per_s = 0;   // of this command
  int64_t episodes = 0;
  std::optional<double> return_mean_100;  // empty below 100 finished episodes
  int64_t episodes_in_mean = 0;
  int64_t updates = 0;
  double policy_lag_mean = 0;
  double env_share = 0, act_share = 0, learn_share = 0;  // of the busy time of actors and learner; they add up to 1
  int64_t actors_replaced = 0;
  int64_t dropped_rollouts = 0;
  double rss_mb = 0;
};

// What a hook sees after an update.
struct UpdateInfo {
  int64_t steps = 0, updates = 0;
  const LearnStats* stats = nullptr;
  const Batch* batch = nullptr;
};

struct TrainHooks {
  std::function<void(const Episode&, int64_t steps)> on_episode = {};
  std::function<void(const UpdateInfo&)> on_update = {};
  std::function<void(const std::string& path, int64_t steps)> on_checkpoint = {};
  const std::atomic<bool>* stop = nullptr;
  bool show_status = true;  // the status line, on stderr
};

TrainSummary train(const TrainConfig& config, const TrainHooks& hooks = {});

// What actor `index` of a run is made with; `config.model` names a network (not "auto").
ActorConfig actor_config(const TrainConfig& config, int64_t index);

// The algorithm of a saved run, ready to act: for evaluation and deployment.
struct LoadedRun {
  TrainConfig config;
  std::shared_ptr<Algorithm> algorithm;
  std::string checkpoint;
  int64_t steps = 0;
};
LoadedRun load_run(const std::string& run_or_checkpoint, bool prefer_best = true);

}  // namespace parl
