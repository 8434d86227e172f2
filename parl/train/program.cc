#include "parl/train/program.h"

#include <torch/torch.h>

#include <cmath>

#include "parl/agent/schedule.h"
#include "parl/algorithms/a2c.h"
#include "parl/algorithms/appo.h"
#include "parl/algorithms/bc.h"
#include "parl/algorithms/ddpg.h"
#include "parl/algorithms/dqn.h"
#include "parl/algorithms/es.h"
#include "parl/algorithms/ga3c.h"
#include "parl/algorithms/impala.h"
#include "parl/algorithms/independent.h"
#include "parl/algorithms/pg.h"
#include "parl/algorithms/ppo.h"
#include "parl/algorithms/pqn.h"
#include "parl/algorithms/sac.h"
#include "parl/algorithms/td3.h"
#include "parl/core/check.h"
#include "parl/env_gym/gym.h"
#include "parl/env_mujoco/mujoco_names.h"
#include "parl/env_multi/multi.h"
#include "parl/env_pixel/pixel.h"
#include "parl/models/policy.h"
#include "parl/train/central_options.h"
#include "parl/train/es_trainer.h"
#include "parl/train/learners.h"
#include "parl/train/train_config.h"
#ifdef PARL_WITH_ATARI
#include "parl/env_atari/atari.h"
#endif
#ifdef PARL_WITH_MUJOCO
#include "parl/env_mujoco/mujoco.h"
#endif

namespace parl {
namespace {

ProgramSetup& user_setup() {
  static ProgramSetup setup = nullptr;
  return setup;
}

void check_on_policy(const TrainConfig& run) {
  PARL_CHECK(run.max_lag == 0,
             "{} learns from the newest policy alone: --max-lag 0 (impala corrects for a lag, this does not)",
             run.algorithm);
}

void check_minibatches(const TrainConfig& run, const ActorCriticConfig& config) {
  const int64_t unrolls = run.rollouts_per_batch() * run.envs_per_actor;
  const bool of_steps = config.minibatch_of != MinibatchOf::kUnrolls;  // of auto steps are the most
  const int64_t items = of_steps ? unrolls * run.rollout_length : unrolls;
  PARL_CHECK(config.learner_threads <= 1'000, "--learner-threads must be at most 1000, not {}", config.learner_threads);
  PARL_CHECK(config.minibatches <= items, "--minibatches {} are more than the {} {} of a batch: use at most so many",
             config.minibatches, items,
             of_steps ? "steps" : "unrolls (actors x environments, which --minibatch-of unrolls draws from)");
}

// A member of the actor-critic family: its class, its settings.
template <typename Class, typename Config>
AlgorithmEntry actor_critic_entry(std::string name, std::string summary) {
  AlgorithmEntry entry;
  entry.name = std::move(name);
  entry.summary = std::move(summary);
  entry.settings = Config{};
  entry.fixed = {"optimizer"};
  entry.continuous_actions = entry.several_numbers = entry.action_masks = entry.recurrent = true;
  entry.discount = [](const AnyConfig& settings) { return settings.as<Config>().gamma; };
  if (Config{}.estimator == Estimator::kGae) entry.run_defaults = R"({"max_lag": 0})";
  entry.check = [](const TrainConfig& run) {
    const Config& config = run.settings.as<Config>();
    config.check();
    check_minibatches(run, config);
    if (config.estimator == Estimator::kGae) check_on_policy(run);
  };
  entry.settle = [](AnyConfig& settings, Model& model) { settings.as<Config>().settle(model); };
  entry.make_learner = [](const ModelFactory& factory, const ModelSpec& spec, const TrainConfig& run) {
    Config config = run.settings.as<Config>();
    if (config.shuffle_seed == 0) config.shuffle_seed = run.seed;
    return std::make_unique<Class>(factory(spec), std::move(config), replicas_of(factory, spec), device_of(run));
  };
  entry.share_gradients = [](Algorithm& learner, std::shared_ptr<GradientReducer> reducer) {
    dynamic_cast<ActorCritic&>(learner).set_reducer(std::move(reducer));
  };
  entry.make_actor = [](std::shared_ptr<Model> model, const AnyConfig& settings) {
    return std::make_unique<Class>(std::move(model), settings.as<Config>());
  };
  return entry;
}

AlgorithmEntry appo_entry() {
  AlgorithmEntry entry = actor_critic_entry<Appo, AppoConfig>(
      "appo", "impala with clipped ratios, each batch learnt several times: asynchronous PPO");
  entry.check = [check = std::move(entry.check)](const TrainConfig& run) {
    check(run);
    PARL_CHECK(run.settings.as<AppoConfig>().clip > 0, "appo needs a --clip above 0: without one it is impala");
  };
  return entry;
}

// What learns from a replay of whole unrolls.
template <typename Config>
void check_replay(const TrainConfig& run, const Config& config) {
  config.check();
  const int64_t whole = config.replay_capacity / run.rollout_length * run.rollout_length;
  PARL_CHECK(whole >= config.batch_size,
             "--replay-capacity {} holds {} steps in unrolls of {}: less than --batch-size {}", config.replay_capacity,
             whole, run.rollout_length, config.batch_size);
  PARL_CHECK(config.n_step <= run.rollout_length, "--n-step {} is longer than an unroll, --rollout-length {}",
             config.n_step, run.rollout_length);
  PARL_CHECK(config.learn_start < run.steps, "--learn-start {} is not before --steps {}: nothing would be learnt",
             config.learn_start, run.steps);
}

// Learns as A2C does, from environments whose actions are chosen in this process.
AlgorithmEntry ga3c_entry() {
  AlgorithmEntry entry = actor_critic_entry<Ga3c, Ga3cConfig>(
      "ga3c", "actor-critic with one network: environments hold none, actions are predicted centrally in batches");
  entry.run_defaults = R"({"max_lag": 4, "rollout_length": 8})";
  entry.check = [](const TrainConfig& run) {
    const Ga3cConfig& config = run.settings.as<Ga3cConfig>();
    config.check();
    check_minibatches(run, config);
  };
  entry.discount = {};
  entry.central = [](const TrainConfig& run) {
    const Ga3cConfig& config = run.settings.as<Ga3cConfig>();
    CentralOptions options;
    options.predictors = config.predictors;
    options.max_batch = config.prediction_batch;
    options.wait = std::chrono::nanoseconds(static_cast<int64_t>(1e6 * config.prediction_wait));
    return options;
  };
  return entry;
}

AlgorithmEntry pg_entry() {
  AlgorithmEntry entry;
  entry.name = "pg";
  entry.summary = "REINFORCE: policy gradient with discounted returns-to-go, learnt baseline or none";
  entry.settings = PgConfig{};
  entry.continuous_actions = true;
  entry.run_defaults = R"({"max_lag": 0, "rollout_length": 128})";
  entry.check = [](const TrainConfig& run) {
    run.settings.as<PgConfig>().check();
    check_on_policy(run);
  };
  entry.make_learner = [](const ModelFactory& factory, const ModelSpec& spec, const TrainConfig& run) {
    return std::make_unique<Pg>(factory(spec), run.settings.as<PgConfig>(), device_of(run));
  };
  entry.make_actor = [](std::shared_ptr<Model> model, const AnyConfig& settings) {
    return std::make_unique<Pg>(std::move(model), settings.as<PgConfig>());
  };
  return entry;
}

AlgorithmEntry es_entry() {
  AlgorithmEntry entry;
  entry.name = "es";
  entry.summary = "evolution strategies: perturbed networks play whole episodes on remote workers";
  entry.settings = EsConfig{};
  entry.several_agents = false;
  entry.continuous_actions = true;
  entry.fixed = {"noise_table"};
  entry.run_defaults = R"({"envs_per_actor": 1, "deterministic": true})";
  entry.check = [](const TrainConfig& run) {
    run.settings.as<EsConfig>().check();
    PARL_CHECK(device_of(run) == "cpu", "es learns on the processor: leave --device out");
  };
  entry.make_learner = [](const ModelFactory& factory, const ModelSpec& spec, const TrainConfig& run) {
    return std::make_unique<Es>(factory(spec), run.settings.as<EsConfig>(), static_cast<uint64_t>(run.seed));
  };
  entry.make_actor = [](std::shared_ptr<Model> model, const AnyConfig& settings) {
    return std::make_unique<Es>(std::move(model), settings.as<EsConfig>());
  };
  entry.train = train_es;
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
  entry.action_masks = true;
  entry.check = [](const TrainConfig& run) { check_replay(run, run.settings.as<DqnConfig>()); };
  entry.make_learner = [](const ModelFactory& factory, const ModelSpec& spec, const TrainConfig& run) {
    DqnConfig config = run.settings.as<DqnConfig>();
    if (config.replay_seed == 0) config.replay_seed = run.seed;
    const ModelSpec wanted = Dqn::network_spec(spec, config);
    std::shared_ptr<Model> model = factory(wanted), target = factory(wanted);
    return std::make_unique<Dqn>(std::move(model), std::move(config), std::move(target), device_of(run));
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
    return std::make_unique<Pqn>(factory(spec), std::move(config), device_of(run));
  };
  entry.make_actor = [](std::shared_ptr<Model> model, const AnyConfig& settings) {
    return std::make_unique<Pqn>(std::move(model), settings.as<PqnConfig>());
  };
  return entry;
}

AlgorithmEntry bc_entry() {
  AlgorithmEntry entry;
  entry.name = "bc";
  entry.summary = "behaviour cloning: makes recorded actions likeliest (--data FILE, see parl record)";
  entry.settings = BcConfig{};
  entry.run_defaults = R"({"actors": 1, "envs_per_actor": 16, "rollout_length": 32, "eval_steps": 100000})";
  entry.from_data = entry.off_policy = entry.continuous_actions = entry.action_masks = true;
  entry.check = [](const TrainConfig& run) { run.settings.as<BcConfig>().check(); };
  entry.make_learner = [](const ModelFactory& factory, const ModelSpec& spec, const TrainConfig& run) {
    return std::make_unique<Bc>(factory(spec), run.settings.as<BcConfig>(), true, device_of(run));
  };
  entry.make_actor = [](std::shared_ptr<Model> model, const AnyConfig& settings) {
    return std::make_unique<Bc>(std::move(model), settings.as<BcConfig>(), false);
  };
  return entry;
}

// Actions are the policy's own, in -1..1: there must be bounds to map them onto.
void check_bounded(const ModelSpec& spec, const TrainConfig& run) {
  for (size_t i = 0; i < static_cast<size_t>(spec.action_size); ++i) {
    PARL_CHECK(std::isfinite(spec.action_low[i]) && std::isfinite(spec.action_high[i]),
               "{} needs actions with bounds; component {} of '{}' is in {}..{}: ppo learns those", run.algorithm, i,
               run.env, spec.action_low[i], spec.action_high[i]);
  }
}

// One of DDPG, TD3, SAC: its class, its settings.
template <typename Class, typename Config>
AlgorithmEntry off_policy_entry(std::string name, std::string summary) {
  AlgorithmEntry entry;
  entry.name = std::move(name);
  entry.summary = std::move(summary);
  entry.settings = Config{};
  entry.fixed = {"critic", "replay_capacity"};
  entry.fixed_run = {"rollout_length"};
  entry.run_defaults = R"({"actors": 1, "envs_per_actor": 4, "rollout_length": 16})";
  entry.off_policy = true;
  entry.discrete_actions = false;
  entry.continuous_actions = entry.tanh_policy = true;
  entry.check = [](const TrainConfig& run) { check_replay(run, run.settings.as<Config>()); };
  entry.make_learner = [](const ModelFactory& factory, const ModelSpec& spec, const TrainConfig& run) {
    Config config = run.settings.as<Config>();
    if (config.replay_seed == 0) config.replay_seed = run.seed;
    check_bounded(spec, run);
    std::shared_ptr<Model> policy = factory(spec);
    const QModelFactory& critic = program().models.critic_factory(config.critic, run.model, !spec.parts.empty());
    OffPolicyNetworks networks = make_off_policy_networks(factory, critic, spec, Class::kCritics, Class::kTargetPolicy);
    return std::make_unique<Class>(std::move(policy), config, std::move(networks), device_of(run));
  };
  entry.make_actor = [](std::shared_ptr<Model> model, const AnyConfig& settings) {
    return std::make_unique<Class>(std::move(model), settings.as<Config>());
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

#ifndef PARL_WITH_MUJOCO
// The names all the same, so that who looks for them learns how to get them.
void register_mujoco_envs(EnvRegistry& registry) {
  for (const MujocoName& name : kMujocoNames) {
    registry.add(name.id, "not in this build: needs MuJoCo, which `make setup && make` fetches (docs/mujoco.md)",
                 [id = name.id](const EnvRequest&) -> std::unique_ptr<Env> {
                   raise(
                       "'{}' needs MuJoCo, and this program was built without: `make setup && make` fetches it, "
                       "PARL_MUJOCO_DIR=<install> names yours (docs/mujoco.md)",
                       id);
                 });
  }
}
#endif

Program make_program() {
  Program p;
  register_builtin_envs(p.envs);
  register_pixel_envs(p.envs);
  register_multi_envs(p.envs);
  register_gym_envs(p.envs);
#ifdef PARL_WITH_ATARI
  register_atari_envs(p.envs);
#endif
  register_mujoco_envs(p.envs);
  p.models = builtin_models();
  p.algorithms.push_back(actor_critic_entry<Impala, ImpalaConfig>(
      "impala", "V-trace actor-critic on remote actors that run ahead; with --clip and --epochs it is APPO"));
  p.algorithms.push_back(
      actor_critic_entry<A2c, A2cConfig>("a2c", "synchronous advantage actor-critic with GAE, one update per batch"));
  p.algorithms.push_back(actor_critic_entry<Ppo, PpoConfig>(
      "ppo", "proximal policy optimization: each batch learnt several times with clipped ratios, GAE"));
  p.algorithms.push_back(appo_entry());
  p.algorithms.push_back(ga3c_entry());
  p.algorithms.push_back(pg_entry());
  p.algorithms.push_back(es_entry());
  p.algorithms.push_back(dqn_entry());
  p.algorithms.push_back(bc_entry());
  p.algorithms.push_back(
      off_policy_entry<Ddpg, DdpgConfig>("ddpg", "deterministic policy gradient from replay; for continuous actions"));
  p.algorithms.push_back(off_policy_entry<Td3, Td3Config>(
      "td3", "DDPG with twin critics, smoothed targets and a delayed policy; for continuous actions"));
  p.algorithms.push_back(off_policy_entry<Sac, SacConfig>(
      "sac", "soft actor-critic from replay with automatic temperature; for continuous actions"));
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
  raise("unknown algorithm '{}'{}; `parl list algorithms` shows all", name, did_you_mean(name, names));
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

void check_network(const AlgorithmEntry& entry, Model& model, const std::string& name) {
  if (entry.recurrent || !model.recurrent()) return;
  std::vector<std::string> able;
  for (const AlgorithmEntry& other : program().algorithms) {
    if (other.recurrent) able.push_back(other.name);
  }
  raise("--model {} has a memory, and {} does not learn sequences: use {}, or a network without", name, entry.name,
        fmt::join(able, ", "));
}

void set_program(ProgramSetup setup) { user_setup() = setup; }

const Program& program() {
  static const Program* made = new Program(make_program());  // never destroyed: remote objects may outlive main
  return *made;
}

std::vector<std::string> independent_agents(const std::string& policies, const EnvSpec& env) {
  if (policies != "independent") return {};
  PARL_CHECK(!env.agents.empty(), "--policies independent is for several agents; '{}' has one: leave it at shared",
             env.id);
  return env.agents;
}

namespace {

// One of `make` for each agent that has a network of its own, or one for all.
template <typename Make>
std::unique_ptr<Algorithm> one_or_each(const std::vector<std::string>& agents, const Make& make) {
  if (agents.empty()) return make();
  std::vector<std::unique_ptr<Algorithm>> each;
  for (size_t i = 0; i < agents.size(); ++i) each.push_back(make());
  return std::make_unique<Independent>(agents, std::move(each));
}

}  // namespace

TrainConfig with_schedules_resolved(TrainConfig config) {
  for (const ConfigField& field : config.settings.fields("")) {
    const ConfigValue value = field.get();
    const auto* text = std::get_if<std::string>(&value);
    if (text && text->find("%:") != std::string::npos) {
      field.set(resolve_shares(*text, static_cast<double>(config.steps)));
    }
  }
  return config;
}

std::unique_ptr<Algorithm> make_learner(const TrainConfig& given, const EnvSpec& env) {
  const TrainConfig config = with_schedules_resolved(given);
  const ModelSpec spec = model_spec_of(env);
  const AlgorithmEntry& entry = program().algorithm(config.algorithm);
  check_actions(entry, spec, config.env);
  const ModelFactory& factory = program().models.factory(config.network());
  return one_or_each(independent_agents(config.policies, env), [&] {
    std::unique_ptr<Algorithm> learner = entry.make_learner(factory, spec, config);
    check_network(entry, learner->model(), config.network());
    return learner;
  });
}

std::unique_ptr<Algorithm> make_actor(const std::string& algorithm, const AnyConfig& settings, const std::string& model,
                                      const std::string& policies, const EnvSpec& env) {
  const ModelSpec spec = model_spec_of(env);
  const AlgorithmEntry& entry = program().algorithm(algorithm);
  return one_or_each(independent_agents(policies, env), [&] {
    return entry.make_actor(program().models.make(model, entry.spec_for(spec, settings)), settings);
  });
}

}  // namespace parl
