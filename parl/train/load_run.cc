// What a run's settings say of its actors, and how a saved run acts again.
#include "parl/core/config.h"
#include "parl/train/checkpoint.h"
#include "parl/train/program.h"
#include "parl/train/trainer.h"

namespace parl {

ActorConfig actor_config(const TrainConfig& config, int64_t index) {
  ActorConfig a;
  a.env = config.env;
  a.env_args = config.env_args;
  a.model = config.model;
  a.algorithm = config.algorithm;
  AnyConfig settings = config.settings;
  a.settings = config_to_json(settings.fields(""));
  a.actor = index;
  a.envs = config.envs_per_actor;
  a.first_env = (config.rank() * config.actors + index) * config.envs_per_actor;
  a.length = config.rollout_length;
  a.pool_threads = config.pool_threads;
  a.seed = static_cast<uint64_t>(config.seed);
  return a;
}

LoadedRun load_run(const std::string& run_or_checkpoint, bool prefer_best) {
  LoadedRun run;
  run.checkpoint = find_checkpoint(run_or_checkpoint, prefer_best);
  Checkpoint c = load_checkpoint_weights(run.checkpoint);
  run.config = train_config_of(c.config, run.checkpoint + "/config.json");
  const ModelSpec spec =
      model_spec_of(program().envs.make({.id = run.config.env, .args = run.config.env_args})->spec());
  run.algorithm = program()
                      .algorithm(run.config.algorithm)
                      .make_actor(program().models.make(run.config.model, spec), run.config.settings);
  run.algorithm->set_weights(c.weights);
  run.steps = c.progress.steps;
  return run;
}

}  // namespace parl
