// Everything that defines a run. One list of fields drives --flags, --help, the --config file and the saved config.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parl/algorithms/impala.h"
#include "parl/core/any_config.h"
#include "parl/core/fields.h"

namespace parl {

// What a run cannot begin with, found before there is a run directory: wrong usage.
class SettingsError : public Error {
 public:
  using Error::Error;
};

struct TrainConfig {
  std::string algorithm = "impala";
  std::string env = "atari:pong";
  std::map<std::string, std::string> env_args;
  std::string model = "auto";
  std::string policies = "shared";
  std::string data;
  std::string run;
  std::string init_from;
  int64_t seed = 1;

  int64_t steps = 10'000'000;
  std::optional<double> until_return;
  double until_seconds = 0;

  std::string engine = "thread";
  int64_t actors = 2;
  int64_t envs_per_actor = 16;
  int64_t pool_threads = 1;
  int64_t rollout_length = 64;
  int64_t batch_rollouts = 0;
  int64_t max_lag = 8;
  int64_t max_ahead = 0;
  bool deterministic = false;
  int64_t max_replacements = 10;
  double actor_timeout = 0;
  std::string device = "cpu";
  bool normalize_observations = false;
  bool normalize_rewards = false;

  int64_t learners = 1;
  int64_t learner_rank = -1;
  std::string learner_address;
  double learner_timeout = 300;

  int64_t log_steps = 20'000;
  double status_seconds = 5;
  int64_t checkpoint_steps = 500'000;
  int64_t keep_checkpoints = 3;
  bool save_replay = true;
  bool ignore_memory = false;
  int64_t eval_steps = 0;
  int64_t eval_episodes = 10;
  std::string eval_policy = "auto";

  // The algorithm's own, of the type that its entry in the program has (train/program.h): ImpalaConfig for "impala".
  AnyConfig settings = ImpalaConfig{};

  // Throws parl::Error naming the option when values do not fit together.
  void check() const;
  // The network's name in the registry, with what --normalize-observations puts before it.
  std::string network() const;
  int64_t rollouts_per_batch() const { return batch_rollouts > 0 ? batch_rollouts : actors; }
  int64_t rank() const { return learner_rank < 0 ? 0 : learner_rank; }
};
PARL_CONFIG(
    TrainConfig, (algorithm, "algorithm (see: parl list algorithms)"), (env, "environment (see: parl list envs)"),
    (env_args, "options of the environment, name=value, repeatable"),
    (model, "network (see: parl list models); auto: by the observation"),
    (policies,
     "where several agents share an environment: shared, one network that all of them act with, or independent, "
     "a learner of its own for each"),
    (data,
     "file of recorded episodes (parl record) to learn from in the environment's place; it is played in only to "
     "evaluate"),
    (run, "run directory; an existing run in it is continued"),
    (init_from, "run or checkpoint whose weights a new run begins with (fine-tuning)"),
    (seed, "seed of everything random in the run"), (steps, "agent steps in total, also after continuing"),
    (until_return, "stop when the mean raw return of the last 100 episodes reaches this"),
    (until_seconds, "stop after this many seconds of this command; 0: no limit"),
    (engine, "where actors live: inline, thread, process, or tcp://host:port for workers that dial in (--parl-worker)"),
    (actors, "remote actors"), (envs_per_actor, "environments of each actor"),
    (pool_threads, "threads that step one actor's environments"), (rollout_length, "T: steps per unroll"),
    (batch_rollouts, "rollouts per update; 0: one per actor"),
    (max_lag,
     "drop rollouts whose weights are older than this many updates; 0: actors wait for the newest weights, so "
     "that acting and learning alternate (on-policy)"),
    (max_ahead,
     "free-running: agent steps that actors make at most before the learner has learnt from them; 0: as many as "
     "fit, two rollouts of every actor"),
    (deterministic, "bit-identical metrics for the same seed and machine"),
    (max_replacements, "failed actors replaced before the run gives up"),
    (actor_timeout, "seconds after which an actor without its rollout counts as failed; 0: never"),
    (device, "where learning runs: cpu, cuda:N, or cuda:* for one GPU per learner"),
    (learners, "learners that share every update; each has --actors actors of its own (docs/learners.md)"),
    (learner_rank,
     "which learner this command is, 0 to learners - 1, when they are started one by one on several machines; "
     "-1: this command starts all of them here"),
    (learner_address, "with --learner-rank: host:port at which learner 0 waits for the others"),
    (learner_timeout, "seconds that the learners wait for one that does not answer, before the run ends"),
    (normalize_observations,
     "the network sees observations with mean 0 and deviation 1, by statistics of all that were learnt from"),
    (normalize_rewards, "rewards are learnt from divided by the deviation of the discounted return so far"),
    (log_steps, "agent steps between rows of metrics.csv"), (status_seconds, "seconds between status lines"),
    (checkpoint_steps, "agent steps between checkpoints"),
    (keep_checkpoints, "newest checkpoints kept; the best is kept besides"),
    (save_replay,
     "the newest checkpoint holds the replay buffer, if there is one; else a continued run fills a new one"),
    (ignore_memory, "start though the replay buffer will not fit into the memory that is available"),
    (eval_steps, "agent steps between evaluations; 0: none"), (eval_episodes, "episodes per evaluation"),
    (eval_policy, "greedy, sample or auto (sample on Atari, greedy elsewhere)"));

// The fields of the run and those of its algorithm, which are "impala.lr" in JSON and --lr as flags. Views into
// `config`: valid until it or its settings are assigned.
ConfigFields config_fields(TrainConfig& config);
// Sets what `json` names. Sections of other algorithms ("ppo": {...}) are skipped. `where` is named in errors.
void config_apply(TrainConfig& config, const std::string& json, const std::string& where);
// The configuration that `json` gives, the rest at the defaults of the algorithm that it names ("impala" if none).
TrainConfig train_config_of(const std::string& json, const std::string& where);

}  // namespace parl
