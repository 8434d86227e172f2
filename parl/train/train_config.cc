#include "parl/train/train_config.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "parl/agent/schedule.h"
#include "parl/core/check.h"
#include "parl/core/config_json.h"
#include "parl/models/normalized.h"
#include "parl/remote/engine_name.h"
#include "parl/train/program.h"

namespace parl {
namespace {

std::vector<std::string> algorithms_that_normalize() {
  std::vector<std::string> names;
  for (const AlgorithmEntry& entry : program().algorithms) {
    if (entry.discount) names.push_back(entry.name);
  }
  return names;
}

void check_learners(const TrainConfig& c, const AlgorithmEntry& entry) {
  PARL_CHECK(c.learners >= 1 && c.learners <= 1'000, "--learners must be 1 to 1000, not {}", c.learners);
  PARL_CHECK(c.learner_timeout > 0, "--learner-timeout must be positive, not {}", c.learner_timeout);
  PARL_CHECK(c.learners == 1 || entry.share_gradients,
             "{} learns alone: leave --learners at 1 (impala, a2c and ppo can share the work)", c.algorithm);
  PARL_CHECK(c.learner_rank >= -1 && c.learner_rank < std::max<int64_t>(c.learners, 0),
             "--learner-rank is {}, expected 0 to {} (--learners less one)", c.learner_rank, c.learners - 1);
  PARL_CHECK(c.learners > 1 || (c.learner_rank == -1 && c.learner_address.empty()),
             "--learner-rank and --learner-address belong to --learners of more than 1");
  PARL_CHECK((c.learner_rank < 0) == c.learner_address.empty(),
             "--learner-rank and --learner-address belong together: give both to each of the {} commands, or none to "
             "start all learners on this machine",
             c.learners);
}

// What schedules set: rates and costs, none of which means anything below 0.
void check_schedules(const ConfigFields& fields) {
  for (const ConfigField& field : fields) {
    if (!field.path.ends_with("_schedule")) continue;
    const std::string text = config_text(field.get());
    if (text.empty()) continue;
    Schedule(text).check_within(0, std::numeric_limits<double>::infinity(), ("--" + field.flag).c_str());
  }
}

// An algorithm's checks know its settings' names, not that they are flags here.
void check_settings(const AlgorithmEntry& entry, const TrainConfig& config, const ConfigFields& fields) {
  try {
    entry.check(config);
  } catch (const Error& error) {
    const std::string text = error.what(), first = text.substr(0, text.find_first_of(" :"));
    const bool is_flag =
        std::any_of(fields.begin(), fields.end(), [&](const ConfigField& field) { return field.flag == first; });
    if (!is_flag) throw;
    raise("--{}", text);
  }
}

}  // namespace

void TrainConfig::check() const {
  const auto at_least = [](const char* flag, int64_t value, int64_t low) {
    PARL_CHECK(value >= low, "--{} must be at least {}, not {}", flag, low, value);
  };
  const auto at_most = [](const char* flag, int64_t value, int64_t high) {
    PARL_CHECK(value <= high, "--{} must be at most {}, not {}", flag, high, value);
  };
  PARL_CHECK(!run.empty(), "a run needs a directory: --run DIR");
  at_least("steps", steps, 1);
  at_least("actors", actors, 1);
  at_least("envs-per-actor", envs_per_actor, 1);
  at_least("pool-threads", pool_threads, 1);
  at_least("rollout-length", rollout_length, 1);
  at_least("batch-rollouts", batch_rollouts, 0);
  at_least("max-lag", max_lag, 0);
  at_least("max-ahead", max_ahead, 0);
  at_least("max-replacements", max_replacements, 0);
  at_least("log-steps", log_steps, 1);
  at_least("checkpoint-steps", checkpoint_steps, 1);
  at_least("keep-checkpoints", keep_checkpoints, 1);
  at_least("eval-steps", eval_steps, 0);
  at_least("eval-episodes", eval_episodes, 1);
  at_least("seed", seed, 0);
  at_most("actors", actors, 10'000);
  at_most("envs-per-actor", envs_per_actor, 100'000);
  at_most("pool-threads", pool_threads, 1'000);
  at_most("rollout-length", rollout_length, 1'000'000);
  at_most("batch-rollouts", batch_rollouts, 1'000'000);
  const bool is_cuda = device == "cuda:*" || (device.starts_with("cuda:") && device.size() > 5 &&
                                              device.find_first_not_of("0123456789", 5) == std::string::npos);
  PARL_CHECK(device == "cpu" || device == "cuda" || is_cuda, "--device is '{}': cpu, cuda, cuda:N or cuda:*", device);
  PARL_CHECK(status_seconds > 0, "--status-seconds must be positive, not {}", status_seconds);
  PARL_CHECK(actor_timeout >= 0, "--actor-timeout must not be negative");
  PARL_CHECK(until_seconds >= 0, "--until-seconds must not be negative");
  PARL_CHECK(
      !deterministic || rollouts_per_batch() == actors,
      "--deterministic puts one rollout of every actor into each batch: leave --batch-rollouts at 0 or make it {}",
      actors);
  PARL_CHECK(
      max_lag > 0 || rollouts_per_batch() == actors,
      "--max-lag 0 learns from rollouts of the newest weights alone, one of every actor: leave --batch-rollouts at "
      "0 or make it {}",
      actors);
  const int64_t batch_steps = rollouts_per_batch() * envs_per_actor * rollout_length;
  PARL_CHECK(
      max_ahead == 0 || max_ahead >= batch_steps,
      "--max-ahead {} is less than one batch, {} steps (--batch-rollouts x --envs-per-actor x --rollout-length): "
      "none could be gathered",
      max_ahead, batch_steps);
  PARL_CHECK(eval_policy == "auto" || eval_policy == "greedy" || eval_policy == "sample",
             "--eval-policy is '{}': use greedy, sample or auto", eval_policy);
  PARL_CHECK(policies == "shared" || policies == "independent", "--policies is '{}': use shared or independent",
             policies);
  if (model != "auto") program().models.factory(model);
  check_engine_name(engine);
  const AlgorithmEntry& entry = program().algorithm(algorithm);
  PARL_CHECK(!entry.from_data || !data.empty(), "{} learns from recorded episodes: --data FILE (parl record makes one)",
             algorithm);
  PARL_CHECK(data.empty() || entry.from_data || entry.off_policy,
             "{} learns from its own policy's experience alone: --data is for bc and the algorithms with replay",
             algorithm);
  PARL_CHECK(data.empty() || !until_return,
             "--until-return needs finished episodes, and with --data none are played: use --eval-steps and --steps");
  check_learners(*this, entry);
  PARL_CHECK(policies == "shared" || !(entry.central || entry.train),
             "{} has one network for all agents: leave --policies at shared", algorithm);
  PARL_CHECK(policies == "shared" || learners == 1,
             "--policies independent is for one learner: its agents have learners of their own; leave --learners at 1");
  PARL_CHECK(!model.starts_with(kNormalized) || entry.discount,
             "{} does not normalise observations: leave 'normalized:' out of --model. These do: {}", algorithm,
             fmt::join(algorithms_that_normalize(), ", "));
  PARL_CHECK(max_ahead == 0 || !(entry.central || entry.train),
             "{}'s workers are never further ahead than the rollouts that they make: leave --max-ahead at 0",
             algorithm);
  PARL_CHECK((!normalize_observations && !normalize_rewards) || entry.discount,
             "{} has no --normalize-{}. These have: {}", algorithm, normalize_observations ? "observations" : "rewards",
             fmt::join(algorithms_that_normalize(), ", "));
  PARL_CHECK(learners == 1 || !(normalize_observations || normalize_rewards),
             "--normalize-{} is for one learner: the statistics of several would differ; leave --learners at 1",
             normalize_observations ? "observations" : "rewards");
  TrainConfig copy = *this;  // of which fields are views
  const ConfigFields fields = copy.settings.fields("");
  if (entry.check) check_settings(entry, *this, fields);
  check_schedules(fields);
}

std::string TrainConfig::network() const { return (normalize_observations ? kNormalized : "") + model; }

ConfigFields config_fields(TrainConfig& config) {
  ConfigFields fields;
  internal::collect_fields(config, "", "", fields);
  ConfigFields own = config.settings.fields(config.algorithm + ".");
  fields.insert(fields.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  internal::check_distinct_flags(fields);
  return fields;
}

void config_apply(TrainConfig& config, const std::string& json, const std::string& where) {
  std::vector<std::string> others;
  for (const AlgorithmEntry& entry : program().algorithms) {
    if (entry.name != config.algorithm) others.push_back(entry.name);
  }
  config_from_json(config_fields(config), json, where, others);
}

TrainConfig train_config_of(const std::string& json, const std::string& where) {
  const auto named = config_value(json, "algorithm", where);
  const auto* name = named ? std::get_if<std::string>(&*named) : nullptr;
  PARL_CHECK(!named || name, "{}: \"algorithm\" wants a name", where);
  TrainConfig config = program().config_of(name ? *name : TrainConfig().algorithm);
  config_apply(config, json, where);
  return config;
}

}  // namespace parl
