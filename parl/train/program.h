// Program: what a training program knows by name: environments, models, algorithms.
//
// Remote actors may live in other processes of the same executable, so what main() registers must be known there too:
// name a set-up function before parl::init and both sides run it once, on first use.
//
//   int main(int argc, char** argv) {
//     parl::set_program([](parl::Program& p) {
//       p.envs.add("Maze-v0", "a maze", [](const parl::EnvRequest&) { return std::make_unique<Maze>(); });
//       p.models.add("maze_net", "two layers", [](const parl::ModelSpec& spec) { return
//       std::make_shared<MazeNet>(spec); });
//     });
//     parl::init(argc, argv);
//     ...
//   }
//
// Thread rule: set_program before any thread is started; program() from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parl/agent/algorithm.h"
#include "parl/core/any_config.h"
#include "parl/env/registry.h"
#include "parl/models/registry.h"

namespace parl {

struct TrainConfig;

struct AlgorithmEntry {
  std::string name, summary;
  AnyConfig settings;  // its config struct with the defaults; what TrainConfig::settings holds
  // What a continued run must keep: settings of its own ("optimizer") and of the run ("rollout_length"), by their
  // names.
  std::vector<std::string> fixed, fixed_run;
  std::string run_defaults;  // JSON: settings of the run that this algorithm wants, where nothing else is said
  bool off_policy = false;   // learns from any policy's rollouts: none is dropped for its age
  bool recurrent = false;    // learns networks with a memory (agent/recurrent.h)
  // Where observations and rewards may be normalised: the discount under these settings. Else empty.
  std::function<double(const AnyConfig& settings)> discount;
  // Throws when the settings do not fit each other or the run. May be empty.
  std::function<void(const TrainConfig&)> check;
  // With optimizer, for the learner. `factory` makes replicas of the model.
  std::function<std::unique_ptr<Algorithm>(const ModelFactory& factory, const ModelSpec&, const TrainConfig&)>
      make_learner;
  // Without optimizer: acts only, under the same settings.
  std::function<std::unique_ptr<Algorithm>(std::shared_ptr<Model>, const AnyConfig& settings)> make_actor;
};

struct Program {
  EnvRegistry envs;
  ModelRegistry models;
  std::vector<AlgorithmEntry> algorithms;

  const AlgorithmEntry& algorithm(const std::string& name) const;  // throws with the near names
  // Everything at its default, with that algorithm's settings.
  TrainConfig config_of(const std::string& algorithm) const;
};

using ProgramSetup = void (*)(Program&);

// Runs after the built-in environments, models and algorithms were registered. Call it before parl::init.
void set_program(ProgramSetup setup);
const Program& program();

// Throws when the algorithm cannot learn such a network.
void check_network(const AlgorithmEntry& entry, Model& model, const std::string& name);

// What a model must fit, from an environment's spaces. `env_id` is for the message when they cannot be learnt from.
ModelSpec model_spec_of(const EnvSpec& spec);

}  // namespace parl
