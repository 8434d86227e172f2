#include "parl/train/program.h"

#include <torch/torch.h>

#include "parl/algorithms/a2c.h"
#include "parl/algorithms/dqn.h"
#include "parl/algorithms/impala.h"
#include "parl/algorithms/ppo.h"
#include "parl/algorithms/pqn.h"
#include "parl/core/check.h"
#include "parl/env_pixel/pixel.h"
#include "parl/models/policy.h"
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

void check_actor_critic(const TrainConfig& run, const ActorCriticConfig& config) {
  config.check();
  const int64_t unrolls = run.rollouts_per_batch() * run.envs_per_actor;
  const bool of_steps = config.minibatch_of == MinibatchOf::kSteps;
  const int64_t items = of_steps ? unrolls * run.rollout_length : unrolls;
  PARL_CHECK(config.learner_threads <= 1'000, "--learner-threads must be at most 1000, not {}", config.learner_threads);
  PARL_CHECK(config.minibatches <= items, "--minibatches {} are more than the {} {} of a batch", config.minibatches,
             items, of_steps ? "steps" : "unrolls (actors x environments)");
  PARL_CHECK(config.estimator != Estimator::kGae || run.max_lag == 0,
             "{} learns from the newest policy alone: --max-lag 0 (impala corrects for a lag, this does not)",
             run.algorithm);
}

// A member of the actor-critic family: its class, its settings.
template <typename Class, typename Config>
AlgorithmEntry actor_critic_entry(std::string name, std::string summary) {
  AlgorithmEntry entry;
  entry.name = std::move(name);
  entry.summary = std::move(summary);
  entry.settings = Config{};
  entry.fixed = {"optimizer"};
  if (Config{}.estimator == Estimator::kGae) entry.run_defaults = R"({"max_lag": 0})";
  entry.check = [](const TrainConfig& run) { check_actor_critic(run, run.settings.as<Config>()); };
  entry.make_learner = [](const ModelFactory& factory, const ModelSpec& spec, const TrainConfig& run) {
    Config config = run.settings.as<Config>();
    if (config.shuffle_seed == 0) config.shuffle_seed = run.seed;
    return std::make_unique<Class>(factory(spec), std::move(config), replicas_of(factory, spec), run.device);
  };
  entry.make_actor = [](std::shared_ptr<Model> model, const AnyConfig& settings) {
    return std::make_unique<Class>(std::move(model), settings.as<Config>());
  };
  return entry;
}

AlgorithmEntry dqn_entry() {
  AlgorithmEntry entry;
  entry.name = "dqn";
  entry.summary =
      "Q-learning from replay; double, dueling, n-step, prioritised, distributional and noisy as options (Rainbow)";
  entry.settings = DqnConfig{};
  entry.fixed = {"dueling", "prioritized", "replay_capacity", "distributional", "atoms",
                 "v_min",   "v_max",       "noisy",           "noisy_layers"};
  entry.fixed_run = {"rollout_length"};
  entry.off_policy = true;
  entry.check = [](const TrainConfig& run) {
    const DqnConfig& config = run.settings.as<DqnConfig>();
    config.check();
    const int64_t whole = config.replay_capacity / run.rollout_length * run.rollout_length;
    PARL_CHECK(whole >= config.batch_size,
               "--replay-capacity {} holds {} steps in unrolls of {}: less than --batch-size {}",
               config.replay_capacity, whole, run.rollout_length, config.batch_size);
    PARL_CHECK(config.n_step <= run.rollout_length, "--n-step {} is longer than an unroll, --rollout-length {}",
               config.n_step, run.rollout_length);
    PARL_CHECK(config.learn_start < run.steps, "--learn-start {} is not before --steps {}: nothing would be learnt",
               config.learn_start, run.steps);
  };
  entry.make_learner = [](const ModelFactory& factory, const ModelSpec& spec, const TrainConfig& run) {
    DqnConfig config = run.settings.as<DqnConfig>();
    if (config.replay_seed == 0) config.replay_seed = run.seed;
    PARL_CHECK(spec.num_actions > 0, "dqn needs a finite set of actions; '{}' has continuous ones: ppo learns those",
               run.env);
    const ModelSpec wanted = Dqn::network_spec(spec, config);
    std::shared_ptr<Model> model = factory(wanted), target = factory(wanted);
    return std::make_unique<Dqn>(std::move(model), std::move(config), std::move(target), run.device);
  };
  entry.make_actor = [](std::shared_ptr<Model> model, const AnyConfig& settings) {
    return std::make_unique<Dqn>(std::move(model), settings.as<DqnConfig>());
  };
  entry.network_spec = [](const ModelSpec& spec, const AnyConfig& settings) {
    return Dqn::network_spec(spec, settings.as<DqnConfig>());
  };
  entry.policy_entries = [](const AnyConfig& settings) {
    const DqnConfig& config = settings.as<DqnConfig>();
    return config.distributional ? policy_atoms(config.atoms_of()) : std::map<std::string, std::string>{};
  };
  return entry;
}

AlgorithmEntry pqn_entry() {
  AlgorithmEntry entry;
  entry.name = "pqn";
  entry.summary = "Q-learning from many environments at once, without replay or target network; Q(lambda) returns";
  entry.settings = PqnConfig{};
  entry.fixed = {"optimizer"};
  entry.run_defaults = R"({"max_lag": 0})";
  entry.check = [](const TrainConfig& run) {
    const PqnConfig& config = run.settings.as<PqnConfig>();
    config.check();
    const int64_t steps = run.rollouts_per_batch() * run.envs_per_actor * run.rollout_length;
    PARL_CHECK(config.minibatches <= steps, "--minibatches {} are more than the {} steps of a batch",
               config.minibatches, steps);
    PARL_CHECK(run.max_lag == 0, "pqn learns from the newest policy alone: --max-lag 0");
  };
  entry.make_learner = [](const ModelFactory& factory, const ModelSpec& spec, const TrainConfig& run) {
    PqnConfig config = run.settings.as<PqnConfig>();
    if (config.shuffle_seed == 0) config.shuffle_seed = run.seed;
    PARL_CHECK(spec.num_actions > 0, "pqn needs a finite set of actions; '{}' has continuous ones: ppo learns those",
               run.env);
    return std::make_unique<Pqn>(factory(spec), std::move(config), run.device);
  };
  entry.make_actor = [](std::shared_ptr<Model> model, const AnyConfig& settings) {
    return std::make_unique<Pqn>(std::move(model), settings.as<PqnConfig>());
  };
  return entry;
}

// What would else go wrong later, and far from its cause.
void check_entry(const AlgorithmEntry& entry) {
  PARL_CHECK(entry.make_learner && entry.make_actor, "algorithm '{}' needs make_learner and make_actor", entry.name);
  TrainConfig run;
  ConfigFields run_fields;
  internal::collect_fields(run, "", "", run_fields);
  PARL_CHECK(!config_find(run_fields, entry.name), "an algorithm cannot be called '{}': a setting of every run is",
             entry.name);
  AnyConfig settings = entry.settings;
  const ConfigFields own = settings.fields("");
  for (const std::string& name : entry.fixed) {
    PARL_CHECK(config_find(own, name), "algorithm '{}': fixed names '{}', which is none of its settings", entry.name,
               name);
  }
  for (const std::string& name : entry.fixed_run) {
    PARL_CHECK(config_find(run_fields, name), "algorithm '{}': fixed_run names no setting of a run: '{}'", entry.name,
               name);
  }
}

Program make_program() {
  Program p;
  register_builtin_envs(p.envs);
  register_pixel_envs(p.envs);
#ifdef PARL_WITH_ATARI
  register_atari_envs(p.envs);
#endif
  p.models = builtin_models();
  p.algorithms.push_back(actor_critic_entry<Impala, ImpalaConfig>(
      "impala", "V-trace actor-critic on remote actors that run ahead; with --clip and --epochs it is APPO"));
  p.algorithms.push_back(
      actor_critic_entry<A2c, A2cConfig>("a2c", "synchronous advantage actor-critic with GAE, one update per batch"));
  p.algorithms.push_back(actor_critic_entry<Ppo, PpoConfig>(
      "ppo", "proximal policy optimization: each batch learnt several times with clipped ratios, GAE"));
  p.algorithms.push_back(dqn_entry());
  p.algorithms.push_back(pqn_entry());
  if (user_setup()) user_setup()(p);
  for (const AlgorithmEntry& entry : p.algorithms) check_entry(entry);
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

TrainConfig Program::config_of(const std::string& name) const {
  TrainConfig config;
  config.algorithm = name;
  config.settings = algorithm(name).settings;
  if (!algorithm(name).run_defaults.empty()) {
    config_from_json(config_fields(config), algorithm(name).run_defaults, "the defaults of " + name);
  }
  return config;
}

void set_program(ProgramSetup setup) { user_setup() = setup; }

const Program& program() {
  static const Program* made = new Program(make_program());  // never destroyed: remote objects may outlive main
  return *made;
}

ModelSpec model_spec_of(const EnvSpec& spec) {
  ModelSpec out;
  out.obs_shape = spec.observation.shape;
  out.obs_dtype = spec.observation.dtype;
  if (const auto* discrete = std::get_if<Discrete>(&spec.action)) {
    out.num_actions = discrete->n;
    return out;
  }
  const Box& box = std::get<Box>(spec.action);
  PARL_CHECK(box.dtype == DType::kF32, "'{}' has actions {}; continuous ones must be float32", spec.id,
             to_string(spec.action));
  out.action_size = box.size();
  const auto bound = [&](const std::vector<double>& bounds, int64_t i) {
    return bounds.size() == 1 ? bounds[0] : bounds.at(static_cast<size_t>(i));
  };
  for (int64_t i = 0; i < out.action_size; ++i) {
    out.action_low.push_back(bound(box.low, i));
    out.action_high.push_back(bound(box.high, i));
  }
  return out;
}

}  // namespace parl
