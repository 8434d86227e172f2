#include "cli/train_options.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "parl/train/presets.h"
#include "parl/train/program.h"

namespace parl::cli {

TrainOptions::TrainOptions(CLI::App& app) : app_(app) {
  app.set_help_flag();
  app.add_flag("-h,--help", help_, "this text, with the defaults for the --env and --preset given beside it");
  app.add_option("algorithm", algorithm_, "what learns (see: parl list algorithms) [" + defaults_.algorithm + "]");
  app.add_option("--preset", preset_, "named settings (see: parl list presets); default: by the environment")
      ->type_name("text");
  app.add_option("--config", file_, "settings from a JSON file, such as a run's config.json")->type_name("file");
  flags_.add_to(app, config_fields(defaults_), {"algorithm"});
}

TrainConfig TrainOptions::resolve() const {
  // What file and flags say about the task decides which preset is the default.
  TrainConfig config;
  ConfigFields fields = config_fields(config);
  std::string file = file_;
  flags_.apply(fields);
  const std::string saved = config.run + "/config.json";
  if (file.empty() && preset_.empty() && algorithm_.empty() && !flags_.given("env") && !config.run.empty() &&
      std::filesystem::exists(saved)) {
    file = saved;
  }
  if (!file.empty()) config_load(fields, file);
  flags_.apply(fields);
  if (!algorithm_.empty()) config.algorithm = algorithm_;
  program().algorithm(config.algorithm);
  program().envs.family_of(config.env);
  const std::string algorithm = config.algorithm, env = config.env;
  chosen_preset_ = preset_ == "default" || preset_.empty() ? default_preset(env) : preset_;

  config = TrainConfig();
  config.algorithm = algorithm;
  config.env = env;
  if (!chosen_preset_.empty()) apply_preset(config, chosen_preset_);
  drop_overruled_schedules(config.impala, file);
  if (!file.empty()) config_load(fields, file);
  flags_.apply(fields);
  config.algorithm = algorithm;
  if (config.run.empty()) {
    std::string name = algorithm + "-" + env + (preset_.empty() ? "" : "-" + preset_);
    for (char& c : name) {
      if (c == ':' || c == '/') c = '-';
    }
    config.run = fmt::format("runs/{}-seed{}", name, config.seed);
  }
  return config;
}

// A rate said by flag or file beats a schedule that only the preset has.
void TrainOptions::drop_overruled_schedules(ImpalaConfig& impala, const std::string& file) const {
  TrainConfig said;
  const std::string nothing = "-";
  said.impala.lr = said.impala.entropy_cost = -1;
  said.impala.lr_schedule = said.impala.entropy_schedule = nothing;
  if (!file.empty()) config_load(config_fields(said), file);
  flags_.apply(config_fields(said));
  if (said.impala.lr != -1 && said.impala.lr_schedule == nothing) impala.lr_schedule.clear();
  if (said.impala.entropy_cost != -1 && said.impala.entropy_schedule == nothing) impala.entropy_schedule.clear();
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
