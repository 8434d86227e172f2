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
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parl/agent/algorithm.h"
#include "parl/algorithms/gradient_reducer.h"
#include "parl/core/any_config.h"
#include "parl/env/registry.h"
#include "parl/models/registry.h"

namespace parl {

struct CentralOptions;
struct TrainConfig;
struct TrainHooks;
struct TrainSummary;

struct AlgorithmEntry {
  std::string name, summary;
  AnyConfig settings;  // its config struct with the defaults; what TrainConfig::settings holds
  // What a continued run must keep: settings of its own ("optimizer") and of the run ("rollout_length"), by their
  // names.
  std::vector<std::string> fixed, fixed_run;
  std::string run_defaults;         // JSON: settings of the run that this algorithm wants, where nothing else is said
  bool from_data = false;           // learns from recorded episodes alone (TrainConfig::data)
  bool off_policy = false;          // learns from any policy's rollouts: none is dropped for its age
  bool tanh_policy = false;         // greedy actions are the tanh of the network's means: what load_policy() must know
  bool discrete_actions = true;     // learns to choose one action of a set
  bool continuous_actions = false;  // learns actions of floats (its network's policy is a Gaussian)
  bool several_numbers = false;     // learns actions of several numbers (MultiDiscrete, MultiBinary)
  bool action_masks = false;        // never takes, nor learns from, what a mask forbids (agent/masked_model.h)
  bool several_agents = true;       // false: plays environments of one agent only
  bool recurrent = false;           // learns networks with a memory (agent/recurrent.h)
  // Where observations and rewards may be normalised: the discount under these settings. Else empty.
  std::function<double(const AnyConfig& settings)> discount;
  // Throws when the settings do not fit each other or the run. May be empty.
  std::function<void(const TrainConfig&)> check;
  // Decides what the settings leave open ("auto") once there is a network; the run stores what came out. May be empty.
  std::function<void(AnyConfig& settings, Model& model)> settle;
  // What its networks are made for, where that is not what the environment wants: more outputs, say. May be empty.
  std::function<ModelSpec(const ModelSpec&, const AnyConfig& settings)> network_spec;
  // Entries of the weights' file that tell load_policy() how to act from such outputs (models/policy.h). May be empty.
  std::function<std::map<std::string, std::string>(const AnyConfig& settings)> policy_entries;
  // With optimizer, for the learner. `factory` makes replicas of the model.
  std::function<std::unique_ptr<Algorithm>(const ModelFactory& factory, const ModelSpec&, const TrainConfig&)>
      make_learner;
  // Makes a learner of make_learner share its gradients with others (--learners). Empty: it learns alone.
  std::function<void(Algorithm&, std::shared_ptr<GradientReducer>)> share_gradients;
  // Without optimizer: acts only, under the same settings. The model was made for spec_for().
  std::function<std::unique_ptr<Algorithm>(std::shared_ptr<Model>, const AnyConfig& settings)> make_actor;
  // Where given, actors are environments alone, and the learner's process chooses all actions (train/central_source.h).
  std::function<CentralOptions(const TrainConfig&)> central;
  // A training of its own in place of "actors collect rollouts, learn() learns them"; see train/run_loop.h.
  std::function<TrainSummary(const TrainConfig&, const TrainHooks&)> train;

  ModelSpec spec_for(const ModelSpec& spec, const AnyConfig& used) const {
    return network_spec ? network_spec(spec, used) : spec;
  }
  std::map<std::string, std::string> policy_entries_for(const AnyConfig& used) const {
    return policy_entries ? policy_entries(used) : std::map<std::string, std::string>{};
  }
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

// Points of schedules at shares of the run ("100%:0") become numbers of steps.
TrainConfig with_schedules_resolved(TrainConfig config);

// What learns in a run, and what acts in it: the entry's own, or one for each agent of the environment where `policies`
// is "independent". `env`: the environment's spec.
std::unique_ptr<Algorithm> make_learner(const TrainConfig& config, const EnvSpec& env);
std::unique_ptr<Algorithm> make_actor(const std::string& algorithm, const AnyConfig& settings, const std::string& model,
                                      const std::string& policies, const EnvSpec& env);
// The agents that have networks of their own in it; none where one network serves all.
std::vector<std::string> independent_agents(const std::string& policies, const EnvSpec& env);
// Throws when the algorithm cannot learn such a network.
void check_network(const AlgorithmEntry& entry, Model& model, const std::string& name);

// What a model must fit, from an environment's spaces. `env_id` is for the message when they cannot be learnt from.
ModelSpec model_spec_of(const EnvSpec& spec);
// The network that --model auto stands for: by the observation (models/registry.h), but mlp256 for a policy that is the
// tanh of its network, unless the observation has parts.
std::string default_model(const AlgorithmEntry& entry, const ModelSpec& spec);
// Throws when an environment has actions that the algorithm cannot learn, naming some that can.
void check_actions(const AlgorithmEntry& entry, const ModelSpec& spec, const std::string& env);

}  // namespace parl
