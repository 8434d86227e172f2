#include "parl/train/program.h"

#include <torch/torch.h>

#include "parl/algorithms/impala.h"
#include "parl/core/check.h"
#include "parl/train/train_config.h"
#ifdef PARL_WITH_ATARI
#include "parl/env_atari/atari.h"
#endif

namespace parl {
namespace {

ProgramSetup& user_setup() {
  static ProgramSetup setup = nullptr;
  return setup;
}

AlgorithmEntry impala_entry() {
  AlgorithmEntry entry;
  entry.name = "impala";
  entry.summary = "IMPALA: V-trace actor-critic on remote actors; with --clip and --epochs it is APPO";
  entry.make_learner = [](const ModelFactory& factory, const ModelSpec& spec, const TrainConfig& config) {
    ImpalaConfig impala = config.impala;
    if (impala.shuffle_seed == 0) impala.shuffle_seed = config.seed;
    return std::make_unique<Impala>(factory(spec), impala, factory, spec, config.device);
  };
  entry.make_actor = [](std::shared_ptr<Model> model) { return std::make_unique<Impala>(std::move(model)); };
  return entry;
}

Program make_program() {
  Program p;
  register_builtin_envs(p.envs);
#ifdef PARL_WITH_ATARI
  register_atari_envs(p.envs);
#endif
  p.models = builtin_models();
  p.algorithms.push_back(impala_entry());
  if (user_setup()) user_setup()(p);
  return p;
}

}  // namespace

const AlgorithmEntry& Program::algorithm(const std::string& name) const {
  std::vector<std::string> names;
  for (const AlgorithmEntry& entry : algorithms) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  raise("unknown algorithm '{}'{}", name, did_you_mean(name, names));
}

void set_program(ProgramSetup setup) { user_setup() = setup; }

const Program& program() {
  static const Program* made = new Program(make_program());  // never destroyed: remote objects may outlive main
  return *made;
}

ModelSpec model_spec_of(const EnvSpec& spec) {
  const auto* discrete = std::get_if<Discrete>(&spec.action);
  PARL_CHECK(discrete != nullptr, "'{}' has continuous actions ({}); the algorithms here need discrete ones", spec.id,
             to_string(spec.action));
  ModelSpec out;
  out.obs_shape = spec.observation.shape;
  out.obs_dtype = spec.observation.dtype;
  out.num_actions = discrete->n;
  return out;
}

}  // namespace parl
