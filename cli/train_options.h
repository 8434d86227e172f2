// The options of every verb that trains: one flag per field of TrainConfig, --preset and --config; and how they become
// one resolved configuration: defaults < preset < --config file < flags.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/config_flags.h"
#include "parl/train/train_config.h"

namespace parl::cli {

class TrainOptions {
 public:
  explicit TrainOptions(CLI::App& app);

  // After parsing. Checks algorithm and environment by name. A --run directory that holds a run, with nothing else said
  // about what to train, continues with that run's own settings.
  TrainConfig resolve() const;
  const std::string& preset() const { return chosen_preset_; }  // after resolve(); empty: none
  bool help() const { return help_; }
  // The help text, with the defaults that hold for the environment and preset given beside --help.
  std::string help_text();

 private:
  static void drop_overruled_schedules(const ConfigFields& fields, const std::function<bool(const ConfigField&)>& says);

  CLI::App& app_;
  ConfigFlags flags_;
  TrainConfig defaults_;
  std::string algorithm_, preset_, file_;
  bool help_ = false;
  mutable std::string chosen_preset_;
};

}  // namespace parl::cli
