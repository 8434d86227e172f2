#include "cli/train_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "parl/core/config_json.h"
#include "parl/core/files.h"
#include "parl/core/log.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"

namespace parl::cli {
namespace {

// The settings of a run that every algorithm has.
ConfigFields run_fields(TrainConfig& config) {
  ConfigFields fields = config_fields(config);
  std::erase_if(fields, [](const ConfigField& field) { return field.path.find('.') != std::string::npos; });
  return fields;
}

// A preset of one family's tasks may set what another's environments do not have.
void check_env_args_of_preset(const TrainConfig& config, const std::string& preset,
                              const std::map<std::string, std::string>& env_args) {
  const EnvFamily& family = program().envs.family_of(config.env);
  if (family.open) return;
  for (const auto& [name, value] : env_args) {
    const bool is_known = std::any_of(family.options.begin(), family.options.end(),
                                      [&, &n = name](const EnvOption& option) { return option.name == n; });
    if (is_known || !config.env_args.contains(name)) continue;
    raise("--preset {} is not for '{}': it sets the environment option '{}' (--env-args {}={}), which '{}' has not",
          preset, config.env, name, name, value, config.env);
  }
}

}  // namespace

TrainOptions::TrainOptions(CLI::App& app) : app_(app) {
  app.set_help_flag();
  app.add_flag("-h,--help", help_, "this text, with the defaults for the --env and --preset given beside it");
  app.add_option("algorithm", algorithm_, "what learns (see: parl list algorithms) [" + defaults_.algorithm + "]");
  app.add_option("--preset", preset_, "named settings (see: parl list presets); default: by the environment")
      ->type_name("text");
  app.add_option("--config", file_, "settings from a JSON file, such as a run's config.json")->type_name("file");
  flags_.add_to(app, config_fields(defaults_), {"algorithm"});
  for (const AlgorithmEntry& entry : program().algorithms) {
    TrainConfig config = program().config_of(entry.name);
    flags_.add_to(app, config_fields(config), {"algorithm"});
  }
}

TrainConfig TrainOptions::resolve() const {
  // What file and flags say about the task decides whose settings there are and which preset is the default.
  TrainConfig probe;
  flags_.apply(run_fields(probe));
  std::string file = file_;
  const std::string saved = probe.run + "/config.json";
  if (file.empty() && preset_.empty() && algorithm_.empty() && !flags_.given("env") && !probe.run.empty() &&
      std::filesystem::exists(saved)) {
    file = saved;
  }
  const std::string text = file.empty() ? "{}" : read_file(file);
  probe = train_config_of(text, file);
  flags_.apply(run_fields(probe));
  const std::string algorithm = algorithm_.empty() ? probe.algorithm : algorithm_;
  TrainConfig config = program().config_of(algorithm);
  if (!file.empty() && probe.algorithm != algorithm) {
    log().warn("{} is of {}: {} takes the run's settings from it, not those of {}", file, probe.algorithm, algorithm,
               probe.algorithm);
  }
  config.env = probe.env;
  program().envs.family_of(config.env);
  chosen_preset_ = preset_ == "default" || preset_.empty() ? default_preset(config.env, algorithm) : preset_;

  const ConfigFields fields = config_fields(config);
  flags_.check_known(fields, algorithm);
  if (!chosen_preset_.empty()) apply_preset(config, chosen_preset_);
  const std::map<std::string, std::string> env_args_of_preset = config.env_args;
  const std::vector<std::string> in_file = config_paths(text, file);
  drop_overruled_schedules(fields, [&](const ConfigField& field) {
    return std::find(in_file.begin(), in_file.end(), field.path) != in_file.end();
  });
  config_apply(config, text, file);
  config.algorithm = algorithm;
  // A run's own config.json serves as a template: it says how to train, not where.
  if (!file_.empty() && std::filesystem::path(file_).parent_path() == std::filesystem::path(config.run)) {
    config.run.clear();
    config.init_from.clear();
  }
  drop_overruled_schedules(fields, [&](const ConfigField& field) { return flags_.given(field.flag); });
  flags_.apply(fields);
  check_env_args_of_preset(config, chosen_preset_, env_args_of_preset);
  if (config.run.empty()) {
    std::string name = algorithm + "-" + config.env + (preset_.empty() ? "" : "-" + preset_);
    for (char& c : name) {
      if (c == ':' || c == '/') c = '-';
    }
    config.run = fmt::format("runs/{}-seed{}", name, config.seed);
  }
  return config;
}

// A rate that `says` beats the schedule that something weaker gave: "lr" that of "lr_schedule", "entropy_cost" that of
// "entropy_schedule".
void TrainOptions::drop_overruled_schedules(const ConfigFields& fields,
                                            const std::function<bool(const ConfigField&)>& says) {
  const std::string suffix = "_schedule";
  for (const ConfigField& schedule : fields) {
    if (!schedule.path.ends_with(suffix) || says(schedule)) continue;
    const std::string stem = schedule.path.substr(0, schedule.path.size() - suffix.size());
    for (const std::string& path : {stem, stem + "_cost"}) {
      const ConfigField* rate = config_find(fields, path);
      if (rate && says(*rate)) schedule.set(std::string());
    }
  }
}

std::string TrainOptions::help_text() {
  TrainConfig config = resolve();
  config.run = "runs/<algorithm>-<env>-seed<N>";
  flags_.show_defaults(config_fields(config));
  std::string text = app_.help();
  if (!chosen_preset_.empty()) text += "\nDefaults shown: " + config.env + " with preset " + chosen_preset_ + ".\n";
  return text;
}

}  // namespace parl::cli
