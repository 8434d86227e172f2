// Presets: named settings for a task, measured and kept. A preset changes only the fields that it names, as a file
// given by
// --config would; flags beat it. Without --preset the default one of the environment holds.
// Thread rule: any thread. Errors: parl::Error with the near names.
#pragma once

#include <string>
#include <vector>

namespace parl {

struct TrainConfig;

struct Preset {
  std::string algorithm;
  std::string name;
  std::string summary;
  std::string json;
};

const std::vector<Preset>& presets();
const Preset& preset(const std::string& name, const std::string& algorithm);
// What holds without --preset: "pong" of impala for atari:*, "pixel" for pixel:*, "classic" for the classic control
// tasks, "control" of ddpg, td3 and sac for what has none of its own, ...; empty: the algorithm's defaults.
std::string default_preset(const std::string& env, const std::string& algorithm);
// What `parl train ALGORITHM --env ENV` runs with: that algorithm's settings and this environment's default preset.
TrainConfig default_config(const std::string& algorithm, const std::string& env);
// The preset of config.algorithm.
void apply_preset(TrainConfig& config, const std::string& name);

}  // namespace parl
