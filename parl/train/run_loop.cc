#include "parl/train/run_loop.h"

#include <torch/torch.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "parl/core/check.h"
#include "parl/core/config.h"
#include "parl/core/interrupt.h"
#include "parl/core/log.h"
#include "parl/data/recording.h"
#include "parl/models/policy.h"
#include "parl/remote/manager.h"
#include "parl/train/evaluate.h"
#include "parl/train/learners.h"
#include "parl/train/metrics.h"
#include "parl/train/program.h"
#include "parl/train/replay_store.h"
#include "parl/train/status.h"

namespace parl {
namespace {

// The same numbers are other actions where a policy is the tanh of its network's means than where it is the means
// themselves, clipped to the bounds.
void check_policy_kind(const std::string& checkpoint, const Checkpoint& c, const std::string& algorithm) {
  const bool tanh = c.policy.contains("tanh") && c.policy.at("tanh") == "1";  // earlier versions had no such policies
  const bool wanted = program().algorithm(algorithm).tanh_policy;
  std::vector<std::string> able;
  for (const AlgorithmEntry& entry : program().algorithms) {
    if (entry.continuous_actions && entry.tanh_policy == tanh) able.push_back(entry.name);
  }
  const auto acts = [](bool by_tanh) { return by_tanh ? "the tanh of its network's means" : "those means, clipped"; };
  PARL_CHECK(tanh == wanted,
             "cannot begin with the weights of '{}': that policy's actions are {}, and {}'s are {}, so it would act "
             "otherwise. These can begin with it: {}",
             checkpoint, acts(tanh), algorithm, acts(wanted), fmt::join(able, ", "));
}

// What an error says before there is a run directory is about the settings.
template <typename F>
auto of_settings(F&& f) {
  try {
    return f();
  } catch (const SettingsError&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    throw SettingsError(error.what());
  }
}

// What each actor would find out for itself, many times over.
void check_data(const TrainConfig& c, const EnvSpec& env) {
  const auto agents = static_cast<int64_t>(env.agents.size());
  PARL_CHECK(agents == 0 || program().algorithm(c.algorithm).several_agents,
             "{} plays one agent at a time, and '{}' has {}: ppo, impala and dqn learn all of them", c.algorithm, c.env,
             agents);
  // Throws where a seat would be left empty.
  if (agents > 0) program().envs.vector_factory({.id = c.env, .args = c.env_args}, c.envs_per_actor)(0);
  if (!c.data.empty()) load_recording(c.data).check_fits(model_spec_of(env), c.env, c.data);
}

// Refuses what does not go together, before there is a run directory.
std::unique_ptr<Algorithm> learner_of(TrainConfig& c, const EnvSpec& env) {
  check_data(c, env);
  static std::mutex one_at_a_time;  // torch's generator is the whole process's
  const std::lock_guard lock(one_at_a_time);
  at::set_num_threads(1);  // learner threads are the algorithm's own
  torch::manual_seed(static_cast<uint64_t>(c.seed));
  if (c.model == "auto") c.model = default_model(program().algorithm(c.algorithm), model_spec_of(env));
  std::unique_ptr<Algorithm> learner = make_learner(c, env);
  if (const auto& settle = program().algorithm(c.algorithm).settle) {
    settle(c.settings, learner->model());
    c.check();
  }
  return learner;
}

// The flags that would have said what was left open: "--model mlp --minibatch-of steps".
std::string settled(TrainConfig given, TrainConfig now) {
  std::string flags;
  const ConfigFields before = config_fields(given), after = config_fields(now);
  for (size_t i = 0; i < after.size(); ++i) {
    const std::string value = config_text(after[i].get());
    if (value != config_text(before[i].get())) flags += fmt::format(" --{} {}", after[i].flag, value);
  }
  return flags;
}

}  // namespace

RunLoop::RunLoop(const TrainConfig& config, const TrainHooks& hooks, std::shared_ptr<LearnerGroup> group)
    : config_(config),
      hooks_(hooks),
      team_(std::move(group)),
      env_spec_(of_settings([&] { return program().envs.make({.id = config.env, .args = config.env_args})->spec(); })),
      model_spec_(of_settings([&] { return model_spec_of(env_spec_); })),
      algorithm_(of_settings([&] { return learner_of(config_, env_spec_); })),
      run_dir_(directory_of(config)) {
  run_dir_.start_log();
  announce_replay(*algorithm_, model_spec_, config_);
  if (team_.leads()) restored_ = load_latest_checkpoint(run_dir_.path());
  join_team();
  restore();
  if (!restored_) algorithm_->set_weights(team_.share(algorithm_->get_weights()));
  next_log_ = next_multiple(config_.log_steps);
  next_checkpoint_ = next_multiple(config_.checkpoint_steps);
  next_eval_ = next_multiple(config_.eval_steps);
  if (team_.leads() && why_stop().empty()) run_dir_.save_config(saved_settings(config_));
  RunLog::Start start{progress_.steps, progress_.steps, progress_.seconds, progress_.row};
  if (progress_.partial_row && why_stop().empty()) {
    start.rows_until = progress_.steps - 1;
    progress_.partial_row = false;
  }
  if (team_.leads()) log_ = std::make_unique<RunLog>(run_dir_, config_, start, hooks_.show_status);
  announce(config);
}

RunLoop::~RunLoop() = default;

void RunLoop::announce(const TrainConfig& given) const {
  log().info("environment: {}", env_spec_.contract);
  if (const std::string flags = settled(given, config_); !flags.empty()) log().info("auto stands for{}", flags);
  log().info("model {}: {} parameters; algorithm {}; device {}", config_.network(),
             algorithm_->model().parameter_count(), config_.algorithm, config_.device);
  log().info("{} actors x {} environments, {} steps per unroll, engine {}{}; seed {}; run {}", config_.actors,
             config_.envs_per_actor, config_.rollout_length, config_.engine,
             config_.deterministic ? ", deterministic" : "", config_.seed, run_dir_.path());
  if (!team_.alone()) log().info("learner {} of {}, each with such actors", team_.rank(), team_.size());
}

void RunLoop::join_team() {
  if (team_.alone()) return;
  team_.require_same(config_);
  program().algorithm(config_.algorithm).share_gradients(*algorithm_, team_.group());
  team_.share(restored_);
}

void RunLoop::restore() {
  if (!restored_) {
    if (!config_.init_from.empty() && team_.leads()) init_from(find_checkpoint(config_.init_from, true));
    return;
  }
  if (!config_.init_from.empty()) log().info("--init-from is for new runs: this one goes on with its own weights");
  Checkpoint& c = *restored_;
  progress_ = c.progress;
  check_continues(c.config, config_);
  algorithm_->set_weights(c.weights);
  algorithm_->set_state(c.algorithm_state);
  restore_replay(*algorithm_, c);
  for (double r : progress_.returns) returns_.add(r);
  for (double l : progress_.lengths) lengths_.add(l);
  first_steps_ = progress_.steps;
  earlier_seconds_ = progress_.seconds;
  earlier_replaced_ = progress_.actors_replaced;
  log().info("continuing {} at {} agent steps, update {}", run_dir_.path(), progress_.steps, progress_.updates);
  const bool exact = config_.deterministic && c.deterministic;
  const bool saved =
      exact && std::all_of(c.actors.begin(), c.actors.end(), [](const ActorState& a) { return a.has_env_state; });
  if (!saved) ++progress_.generation;  // fresh streams, or the same episodes would come again
  if (!saved)
    log().info("environments start new episodes: {}",
               exact ? "they cannot save their state" : "only deterministic runs keep them");
}

void RunLoop::init_from(const std::string& checkpoint) {
  const Checkpoint c = load_checkpoint_weights(checkpoint);
  if (model_spec_.action_size > 0) check_policy_kind(checkpoint, c, config_.algorithm);
  try {
    algorithm_->set_weights(network_weights(c.weights));
  } catch (const Error& error) {
    raise("cannot begin with the weights of '{}': {} (the network and the number of actions must be the same)",
          checkpoint, error.what());
  }
  log().info("beginning with the weights of {} ({} agent steps)", checkpoint, c.progress.steps);
}

// Collects, and hears from the other learners how they did. False: one of them was asked to stop.
bool RunLoop::collect_round() {
  std::exception_ptr own;
  try {
    news_.whole = collect();
  } catch (const std::exception& error) {
    news_.failure = error.what();
    own = std::current_exception();
  }
  news_.stop = asked_to_stop();
  news_.seconds = elapsed();
  news_.actors_replaced = replaced();
  round_ = team_.exchange(std::exchange(news_, {}));
  for (const LearnerNews& news : std::exchange(round_.news, {})) absorb(news);
  if (!round_.failure.empty()) give_up(round_.failure, own);
  return round_.whole;
}

// No actor can be had any more: what was learnt is saved before the error goes on.
void RunLoop::give_up(const std::string& why, const std::exception_ptr& own) {
  if (progress_.updates > 0) {
    log().error("stopping: {}", why);
    try {
      checkpoint_now(false);
    } catch (const std::exception& failed) {
      log().error("no checkpoint could be written: {}", failed.what());
    }
  }
  if (own) std::rethrow_exception(own);
  raise("{}", why);
}

void RunLoop::account(const Episode& episode) {
  ++progress_.episodes;
  returns_.add(episode.raw_return);
  lengths_.add(static_cast<double>(episode.length));
  if (log_) log_->add_episode(episode);
  if (hooks_.on_episode) hooks_.on_episode(episode, progress_.steps);
}

void RunLoop::absorb(const LearnerNews& news) {
  phases_.env += news.env_seconds;
  phases_.act += news.act_seconds;
  progress_.dropped_rollouts += news.dropped_rollouts;
  for (const int64_t lag : news.lags) {
    lag_.add(static_cast<double>(lag));
    if (log_) log_->add_lag(lag);
  }
  for (const Episode& episode : news.episodes) account(episode);
}

void RunLoop::wait_for_workers(const RemoteManager& manager) const {
  constexpr double kLongest = 50;  // then create() says what is missing
  if (!config_.engine.starts_with("tcp:") && !config_.engine.starts_with("unix:")) return;
  if (manager.slots().vacant > 0) return;
  log().info("waiting for workers: start the same program with --parl-worker {} on each machine (docs/remote.md)",
             config_.engine);
  for (const auto start = Clock::now(); manager.slots().vacant == 0 && seconds_since(start) < kLongest;) {
    if (asked_to_stop()) throw Interrupted("stopped while waiting for workers");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

bool RunLoop::leave_off() const {
  constexpr double kGrace = 5;
  return asked_to_stop() || (config_.until_seconds > 0 && elapsed() > config_.until_seconds + kGrace);
}

std::string RunLoop::why_stop() const {
  if (team_.alone() ? asked_to_stop() : round_.stop) return "interrupted";
  if (config_.until_return && returns_.full() && returns_.mean() >= *config_.until_return) return "until_return";
  if (progress_.steps >= config_.steps) return "steps";
  const double seconds = team_.alone() ? elapsed() : round_.seconds;
  if (config_.until_seconds > 0 && seconds >= config_.until_seconds) return "until_seconds";
  return "";
}

void RunLoop::evaluate_now() {
  EvalOptions options;
  options.env = config_.env;
  options.env_args = config_.env_args;
  options.episodes = config_.eval_episodes;
  options.policy = config_.eval_policy;
  options.seed = static_cast<uint64_t>(config_.seed);
  options.stop = [this] { return leave_off(); };
  const EvalSummary eval = evaluate(*algorithm_, options);
  if (!eval.complete) return;  // the games that end first are not the others
  log().info("evaluation at {} steps: {} policy, {} games, return {:.2f} +- {:.2f}, {} truncated", progress_.steps,
             eval.policy, eval.episodes.size(), eval.return_mean, eval.return_std, eval.truncated);
  log_->add_eval(eval);
  save_best_ = !progress_.has_best || eval.return_mean > progress_.best_return;
  if (!save_best_) return;
  progress_.best_return = eval.return_mean;
  progress_.has_best = true;
}

// at_rest: between two updates, where a deterministic run can have its actors wait. Else its environments are not
// saved.
void RunLoop::checkpoint_now(bool at_rest) {
  Checkpoint c;
  progress_.seconds = earlier_seconds_ + elapsed();
  progress_.actors_replaced = earlier_replaced_ + round_.actors_replaced;
  progress_.returns.assign(returns_.values().begin(), returns_.values().end());
  progress_.lengths.assign(lengths_.values().begin(), lengths_.values().end());
  if (log_ && !progress_.partial_row) progress_.row = log_->row();
  bool best = std::exchange(save_best_, false);
  if (config_.eval_steps == 0 && returns_.full() && (!progress_.has_best || returns_.mean() > progress_.best_return)) {
    best = true;
    progress_.best_return = returns_.mean();
    progress_.has_best = true;
  }
  c.progress = progress_;
  c.weights = algorithm_->get_weights();
  c.algorithm_state = algorithm_->get_state();
  c.deterministic = config_.deterministic && at_rest;
  c.config = saved_settings(config_);
  const AlgorithmEntry& entry = program().algorithm(config_.algorithm);
  c.policy = policy_metadata(config_.network(), model_spec_, entry.tanh_policy,
                             independent_agents(config_.policies, env_spec_));
  c.policy.merge(entry.policy_entries_for(config_.settings));
  c.save_replay = replay_writer(*algorithm_, config_);
  if (!save_workers(c)) return;
  team_.require_equal(c.weights);
  if (c.deterministic) team_.gather(c, config_.actors);
  if (!team_.leads()) return;
  const std::string path = save_checkpoint(run_dir_.path(), c);
  if (best) mark_best(run_dir_.path(), path);
  prune_checkpoints(run_dir_.path(), config_.keep_checkpoints);
  if (hooks_.on_checkpoint) hooks_.on_checkpoint(path, progress_.steps);
}

void RunLoop::after_update() {
  if (config_.eval_steps > 0 && progress_.steps >= next_eval_) {
    next_eval_ = next_multiple(config_.eval_steps);
    if (team_.leads()) evaluate_now();
    save_best_ = team_.decide(save_best_);
  }
  if (!log_) return;
  const RunCounters now = counters();
  if (progress_.steps >= next_log_) {
    next_log_ = next_multiple(config_.log_steps);
    log_->write_row(now);
  }
  log_->show(now);
}

// The end of the curve, where no row is due. A run that goes on later cuts it away again.
void RunLoop::finish_row(const std::string& reason) {
  if (!log_ || reason == "interrupted" || log_->row_steps() == progress_.steps) return;
  progress_.row = log_->row();
  progress_.partial_row = true;
  log_->write_row(counters());
}

RunCounters RunLoop::counters() const {
  RunCounters counters;
  counters.steps = progress_.steps;
  counters.frames = progress_.steps * env_spec_.frames_per_step;
  counters.updates = progress_.updates;
  counters.episodes = progress_.episodes;
  counters.return_mean = returns_.mean();
  counters.length_mean = lengths_.mean();
  counters.episodes_in_mean = static_cast<int64_t>(returns_.count());
  counters.dropped_rollouts = progress_.dropped_rollouts;
  counters.actors_replaced = earlier_replaced_ + round_.actors_replaced;
  counters.queue_fill = queue_fill();
  counters.seconds = earlier_seconds_ + elapsed();
  counters.phases = phases_;
  return counters;
}

TrainSummary RunLoop::run() {
  start_ = Clock::now();
  if (team_.alone()) algorithm_->interrupt_when([this] { return leave_off(); });
  if (why_stop().empty()) start();
  std::string reason = why_stop();
  const bool nothing_to_do = !reason.empty();
  while (reason.empty()) {
    if (!collect_round()) {
      reason = why_stop();
      if (reason.empty()) reason = "interrupted";
      checkpoint_now(rests_when_stopped());
      break;
    }
    learn();
    after_update();
    reason = why_stop();
    if (!reason.empty()) finish_row(reason);
    if (!reason.empty() || save_best_ || progress_.steps >= next_checkpoint_) {
      next_checkpoint_ = next_multiple(config_.checkpoint_steps);
      checkpoint_now();
    }
    if (reason.empty()) publish();
  }
  if (nothing_to_do) log().info("nothing to do: the run already has {} agent steps ({})", progress_.steps, reason);
  const TrainSummary s = summary(reason);
  if (log_) log_->finish();
  stop();
  return s;
}

TrainSummary RunLoop::summary(const std::string& reason) const {
  TrainSummary s;
  s.run = run_dir_.path();
  s.stop_reason = reason;
  s.steps = progress_.steps;
  s.frames = progress_.steps * env_spec_.frames_per_step;
  s.seconds = elapsed();
  s.steps_per_s = s.seconds > 0 ? static_cast<double>(progress_.steps - first_steps_) / s.seconds : 0;
  s.episodes = progress_.episodes;
  s.episodes_in_mean = static_cast<int64_t>(returns_.count());
  if (returns_.full()) s.return_mean_100 = returns_.mean();
  s.updates = progress_.updates;
  s.policy_lag_mean = lag_.count() ? lag_.mean() : 0;
  const double busy = phases_.env + phases_.act + phases_.learn;
  if (busy > 0) {
    s.env_share = phases_.env / busy;
    s.act_share = phases_.act / busy;
    s.learn_share = phases_.learn / busy;
  }
  s.actors_replaced = earlier_replaced_ + round_.actors_replaced;
  s.dropped_rollouts = progress_.dropped_rollouts;
  s.rss_mb = rss_mb();
  return s;
}

}  // namespace parl
