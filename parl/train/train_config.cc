#include "parl/train/train_config.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "parl/core/check.h"
#include "parl/train/program.h"

namespace parl {
namespace {

using Json = nlohmann::ordered_json;

Json parse_object(const std::string& text, const std::string& where) {
  Json root;
  try {
    root = Json::parse(text, nullptr, true, /*ignore_comments=*/true);
  } catch (const Json::parse_error& error) {
    raise("{} is not valid JSON: {}", where, error.what());
  }
  PARL_CHECK(root.is_object(), "{}: a configuration is a JSON object {{\"name\": value, ...}}", where);
  return root;
}

void add_paths(const Json& object, const std::string& prefix, std::vector<std::string>& paths) {
  for (const auto& [key, item] : object.items()) {
    if (item.is_object()) {
      add_paths(item, prefix + key + ".", paths);
    } else {
      paths.push_back(prefix + key);
    }
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
  const bool is_cuda = device.starts_with("cuda:") && device.size() > 5 &&
                       device.find_first_not_of("0123456789", 5) == std::string::npos;
  PARL_CHECK(device == "cpu" || device == "cuda" || is_cuda, "--device is '{}': cpu, cuda or cuda:N", device);
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
  PARL_CHECK(eval_policy == "auto" || eval_policy == "greedy" || eval_policy == "sample",
             "--eval-policy is '{}': use greedy, sample or auto", eval_policy);
  const AlgorithmEntry& entry = program().algorithm(algorithm);
  if (entry.check) entry.check(*this);
}

ConfigFields config_fields(TrainConfig& config) {
  ConfigFields fields;
  internal::collect_fields(config, "", "", fields);
  ConfigFields own = config.settings.fields(config.algorithm + ".");
  fields.insert(fields.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  internal::check_distinct_flags(fields);
  return fields;
}

void config_apply(TrainConfig& config, const std::string& json, const std::string& where) {
  Json root = parse_object(json, where);
  for (const AlgorithmEntry& entry : program().algorithms) {
    if (entry.name != config.algorithm) root.erase(entry.name);
  }
  config_from_json(config_fields(config), root.dump(), where);
}

TrainConfig train_config_of(const std::string& json, const std::string& where) {
  const Json root = parse_object(json, where);
  const auto named = root.find("algorithm");
  PARL_CHECK(named == root.end() || named->is_string(), "{}: \"algorithm\" wants a name", where);
  TrainConfig config = program().config_of(named == root.end() ? TrainConfig().algorithm : named->get<std::string>());
  config_apply(config, json, where);
  return config;
}

std::vector<std::string> config_paths(const std::string& json, const std::string& where) {
  std::vector<std::string> paths;
  add_paths(parse_object(json, where), "", paths);
  return paths;
}

}  // namespace parl
