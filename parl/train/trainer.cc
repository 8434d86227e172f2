#include "parl/train/trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include "parl/agent/nonfinite.h"
#include "parl/core/check.h"
#include "parl/core/clock.h"
#include "parl/core/config.h"
#include "parl/core/log.h"
#include "parl/core/stats.h"
#include "parl/data/batch_buffer.h"
#include "parl/models/policy.h"
#include "parl/train/actor_pool.h"
#include "parl/train/central_source.h"
#include "parl/train/checkpoint.h"
#include "parl/train/evaluate.h"
#include "parl/train/metrics.h"
#include "parl/train/program.h"
#include "parl/train/run_dir.h"
#include "parl/train/run_log.h"
#include "parl/train/run_loop.h"
#include "parl/train/status.h"

namespace parl {
namespace {

// Actors collect rollouts, learn() learns them.
class Trainer : public RunLoop {
 public:
  Trainer(const TrainConfig& config, const TrainHooks& hooks);

 protected:
  void start() override { source_->start(); }
  bool collect() override;
  void learn() override;
  void publish() override { source_->publish(progress_.updates, algorithm_->get_weights()); }
  void stop() override { source_->stop(); }
  bool save_workers(Checkpoint& c) override { return !c.deterministic || source_->barrier(c.actors, c.waiting); }
  bool rests_when_stopped() const override { return !config_.deterministic; }
  int64_t replaced() const override { return source_->replaced(); }
  double queue_fill() const override { return static_cast<double>(source_->waiting()) / source_->actors(); }

 private:
  void start_actors();
  std::unique_ptr<Algorithm> make_predictor(const AlgorithmEntry& entry) const;
  std::optional<Rollout> next_rollout();
  void account_rollout(const Rollout& rollout);
  void dump_batch(const Batch& batch, const NonFiniteError& error) const;

  std::unique_ptr<RemoteManager> manager_;
  std::unique_ptr<RolloutSource> source_;
  std::vector<Rollout> rollouts_;
  BatchBuffer buffer_;
};

std::unique_ptr<Env> probe_env(const TrainConfig& c) { return program().envs.make({.id = c.env, .args = c.env_args}); }

}  // namespace

RunLoop::RunLoop(const TrainConfig& config, const TrainHooks& hooks)
    : config_(config),
      hooks_(hooks),
      env_spec_(probe_env(config)->spec()),
      model_spec_(model_spec_of(env_spec_)),
      run_dir_(config.run) {
  run_dir_.start_log();
  at::set_num_threads(1);  // learner threads are the algorithm's own
  torch::manual_seed(static_cast<uint64_t>(config_.seed));
  if (config_.model == "auto") config_.model = default_model_for(model_spec_);
  algorithm_ = program()
                   .algorithm(config_.algorithm)
                   .make_learner(program().models.factory(config_.model), model_spec_, config_);
  if (const auto path = latest_checkpoint(run_dir_.path())) restored_ = load_checkpoint(*path);
  restore();
  next_log_ = next_multiple(config_.log_steps);
  next_checkpoint_ = next_multiple(config_.checkpoint_steps);
  next_eval_ = next_multiple(config_.eval_steps);
  if (why_stop().empty()) run_dir_.save_config(config_to_json(config_));
  RunLog::Start start{progress_.steps, progress_.steps, progress_.seconds, progress_.row};
  if (progress_.partial_row && why_stop().empty()) {
    start.rows_until = progress_.steps - 1;
    progress_.partial_row = false;
  }
  log_ = std::make_unique<RunLog>(run_dir_, config_, start, hooks_.show_status);
  announce();
}

RunLoop::~RunLoop() = default;

void RunLoop::announce() const {
  log().info("environment: {}", env_spec_.contract);
  log().info("model {}: {} parameters; algorithm {}; device {}", config_.model, algorithm_->model().parameter_count(),
             config_.algorithm, config_.device);
  log().info("{} actors x {} environments, {} steps per unroll, engine {}{}; seed {}; run {}", config_.actors,
             config_.envs_per_actor, config_.rollout_length, config_.engine,
             config_.deterministic ? ", deterministic" : "", config_.seed, run_dir_.path());
}

void RunLoop::restore() {
  if (!restored_) {
    if (!config_.init_from.empty()) init_from(find_checkpoint(config_.init_from, true));
    return;
  }
  if (!config_.init_from.empty()) log().info("--init-from is for new runs: this one goes on with its own weights");
  Checkpoint& c = *restored_;
  progress_ = c.progress;
  check_continues(c.config, config_);
  algorithm_->set_weights(c.weights);
  algorithm_->set_state(c.algorithm_state);
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
  try {
    algorithm_->set_weights(network_weights(c.weights));
  } catch (const Error& error) {
    raise("cannot begin with the weights of '{}': {} (the network and the number of actions must be the same)",
          checkpoint, error.what());
  }
  log().info("beginning with the weights of {} ({} agent steps)", checkpoint, c.progress.steps);
}

Trainer::Trainer(const TrainConfig& config, const TrainHooks& hooks) : RunLoop(config, hooks) { start_actors(); }

void Trainer::start_actors() {
  manager_ = std::make_unique<RemoteManager>(config_.engine);
  std::vector<ActorConfig> actors;
  for (int64_t i = 0; i < config_.actors; ++i) {
    actors.push_back(actor_config(config_, i));
    actors.back().generation = progress_.generation * 1'000'000;  // replacements count upwards from here
  }
  RolloutSource::Options options;
  options.actors = static_cast<int>(config_.actors);
  options.deterministic = config_.deterministic;
  options.on_policy = config_.max_lag == 0;
  options.max_replacements = config_.max_replacements;
  const bool exact = restored_ && config_.deterministic && restored_->deterministic;
  std::vector<Rollout> waiting;
  if (exact && !options.on_policy) waiting = std::move(restored_->waiting);
  options.first_version = progress_.updates;
  if (config_.deterministic) options.first_sequence = progress_.updates + (waiting.empty() ? 0 : 1);
  options.timeout = config_.actor_timeout;
  const AlgorithmEntry& entry = program().algorithm(config_.algorithm);
  if (entry.central) {
    source_ = std::make_unique<CentralSource>(*manager_, options, entry.central(config_), actors, env_spec_,
                                              [this, &entry] { return make_predictor(entry); });
  } else {
    source_ = std::make_unique<ActorPool>(*manager_, options, actors);
  }
  if (exact) source_->restore(restored_->actors, std::move(waiting));
  restored_.reset();
  publish();
}

// What chooses actions in this process: like an actor's, but on the learner's device.
std::unique_ptr<Algorithm> Trainer::make_predictor(const AlgorithmEntry& entry) const {
  const ModelFactory& factory = program().models.factory(config_.model);
  if (config_.device == "cpu") return entry.make_actor(factory(model_spec_), config_.settings);
  return entry.make_learner(factory, model_spec_, config_);  // who never learns has no optimizer
}

// Empty: a stop was asked for. A deterministic run wants the batch whole, for its checkpoint, and gives it some
// seconds.
std::optional<Rollout> Trainer::next_rollout() {
  constexpr double kGrace = 10, kTellEvery = 60;
  const auto start = Clock::now();
  std::optional<Clock::time_point> asked;
  double told = 0;
  const auto give_up = [&] {
    if (const double waited = seconds_since(start); waited > told + kTellEvery) {
      told = waited;
      log().warn("no rollout for {:.0f} s: an environment is slow or hangs (see --actor-timeout)", waited);
    }
    if (!asked_to_stop()) return false;
    if (!asked) asked = Clock::now();
    return !config_.deterministic || seconds_since(*asked) > kGrace;
  };
  return config_.deterministic ? source_->next_from(static_cast<int>(rollouts_.size()), give_up)
                               : source_->next(give_up);
}

// Gathers one batch of rollouts. False: a stop was asked for.
bool Trainer::collect() {
  rollouts_.clear();
  const ScopedTimer timer(phases_.wait);
  while (static_cast<int64_t>(rollouts_.size()) < config_.rollouts_per_batch()) {
    auto rollout = next_rollout();
    if (!rollout) return false;
    const int64_t lag = progress_.updates - rollout->version;
    account_rollout(*rollout);
    if (lag > config_.max_lag && !program().algorithm(config_.algorithm).off_policy) {
      ++progress_.dropped_rollouts;
      continue;
    }
    lag_.add(static_cast<double>(lag));
    log_->add_lag(lag);
    rollouts_.push_back(std::move(*rollout));
  }
  return true;
}

// No actor can be had any more: what was learnt is saved before the error goes on.
bool RunLoop::collect_or_save() {
  try {
    return collect();
  } catch (const std::exception& error) {
    if (progress_.updates == 0) throw;
    log().error("stopping: {}", error.what());
    try {
      checkpoint_now(false);
    } catch (const std::exception& failed) {
      log().error("no checkpoint could be written: {}", failed.what());
    }
    throw;
  }
}

void RunLoop::account(const Episode& episode) {
  ++progress_.episodes;
  returns_.add(episode.raw_return);
  lengths_.add(static_cast<double>(episode.length));
  log_->add_episode(episode);
  if (hooks_.on_episode) hooks_.on_episode(episode, progress_.steps);
}

void Trainer::account_rollout(const Rollout& rollout) {
  phases_.env += rollout.env_seconds * static_cast<double>(config_.pool_threads);
  phases_.act += rollout.act_seconds;
  for (const Episode& e : rollout.episodes) account(e);
}

void Trainer::learn() {
  const auto started = Clock::now();
  const Batch batch = buffer_.assemble(rollouts_);
  rollouts_.clear();  // their memory goes back to the actors while we learn
  LearnStats stats;
  try {
    stats = algorithm_->learn(config_.device == "cpu" ? batch : batch.to(at::Device(config_.device)), progress_.steps);
  } catch (const NonFiniteError& error) {
    dump_batch(batch, error);
    throw;
  }
  phases_.learn += seconds_since(started) * static_cast<double>(algorithm_->learner_threads());
  progress_.steps += batch.steps();
  ++progress_.updates;
  const LearnStats more = source_->take_statistics();
  stats.insert(stats.end(), more.begin(), more.end());
  log_->add_update(stats);
  if (hooks_.on_update) hooks_.on_update({progress_.steps, progress_.updates, &stats, &batch});
}

void Trainer::dump_batch(const Batch& batch, const NonFiniteError& error) const {
  const std::string path = run_dir_.path() + fmt::format("/nonfinite_step_{}.safetensors", progress_.steps);
  log().critical("{}: stopping at {} agent steps, update {}; the batch and weights go to '{}'", error.what(),
                 progress_.steps, progress_.updates, path);
  try {
    save_batch_dump(path, error.batch().reward.defined() ? error.batch() : batch,
                    error.weights().entries.empty() ? algorithm_->get_weights() : error.weights(), error.what());
  } catch (const std::exception& failed) {
    log().error("the dump could not be written: {}", failed.what());
  }
}

std::string RunLoop::why_stop() const {
  if (asked_to_stop()) return "interrupted";
  if (config_.until_return && returns_.full() && returns_.mean() >= *config_.until_return) return "until_return";
  if (progress_.steps >= config_.steps) return "steps";
  if (config_.until_seconds > 0 && elapsed() >= config_.until_seconds) return "until_seconds";
  return "";
}

void RunLoop::evaluate_now() {
  EvalOptions options;
  options.env = config_.env;
  options.env_args = config_.env_args;
  options.episodes = config_.eval_episodes;
  options.policy = config_.eval_policy;
  options.seed = static_cast<uint64_t>(config_.seed);
  if (hooks_.stop) options.stop = [this] { return hooks_.stop->load(); };
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
  progress_.actors_replaced = earlier_replaced_ + replaced();
  progress_.returns.assign(returns_.values().begin(), returns_.values().end());
  progress_.lengths.assign(lengths_.values().begin(), lengths_.values().end());
  if (!progress_.partial_row) progress_.row = log_->row();
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
  c.config = config_to_json(config_);
  c.policy = policy_metadata(config_.model, model_spec_of(env_spec_));
  if (!save_workers(c)) return;
  const std::string path = save_checkpoint(run_dir_.path(), c);
  if (best) mark_best(run_dir_.path(), path);
  prune_checkpoints(run_dir_.path(), config_.keep_checkpoints);
  if (hooks_.on_checkpoint) hooks_.on_checkpoint(path, progress_.steps);
}

void RunLoop::after_update() {
  if (config_.eval_steps > 0 && progress_.steps >= next_eval_) {
    next_eval_ = next_multiple(config_.eval_steps);
    evaluate_now();
  }
  const RunCounters now = counters();
  if (progress_.steps >= next_log_) {
    next_log_ = next_multiple(config_.log_steps);
    log_->write_row(now);
  }
  log_->show(now);
}

// The end of the curve, where no row is due. A run that goes on later cuts it away again.
void RunLoop::finish_row(const std::string& reason) {
  if (reason == "interrupted" || log_->row_steps() == progress_.steps) return;
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
  counters.actors_replaced = earlier_replaced_ + replaced();
  counters.queue_fill = queue_fill();
  counters.seconds = earlier_seconds_ + elapsed();
  counters.phases = phases_;
  return counters;
}

TrainSummary RunLoop::run() {
  start_ = Clock::now();
  if (why_stop().empty()) start();
  std::string reason = why_stop();
  const bool nothing_to_do = !reason.empty();
  while (reason.empty()) {
    if (!collect_or_save()) {
      reason = "interrupted";
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
  log_->finish();
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
  s.actors_replaced = earlier_replaced_ + replaced();
  s.dropped_rollouts = progress_.dropped_rollouts;
  s.rss_mb = rss_mb();
  return s;
}

ActorConfig actor_config(const TrainConfig& config, int64_t index) {
  ActorConfig a;
  a.env = config.env;
  a.env_args = config.env_args;
  a.model = config.model;
  a.algorithm = config.algorithm;
  AnyConfig settings = config.settings;
  a.settings = config_to_json(settings.fields(""));
  a.actor = index;
  a.envs = config.envs_per_actor;
  a.first_env = index * config.envs_per_actor;
  a.length = config.rollout_length;
  a.pool_threads = config.pool_threads;
  a.seed = static_cast<uint64_t>(config.seed);
  return a;
}

TrainSummary train(const TrainConfig& config, const TrainHooks& hooks) {
  config.check();
  PARL_CHECK(
      config.device == "cpu" || torch::cuda::is_available(),
      "--device {}: this machine, or the libtorch that this program was built with, has no CUDA; use --device cpu",
      config.device);
  const AlgorithmEntry& entry = program().algorithm(config.algorithm);
  return entry.train ? entry.train(config, hooks) : Trainer(config, hooks).run();
}

LoadedRun load_run(const std::string& run_or_checkpoint, bool prefer_best) {
  LoadedRun run;
  run.checkpoint = find_checkpoint(run_or_checkpoint, prefer_best);
  Checkpoint c = load_checkpoint_weights(run.checkpoint);
  run.config = train_config_of(c.config, run.checkpoint + "/config.json");
  const ModelSpec spec = model_spec_of(probe_env(run.config)->spec());
  run.algorithm = program()
                      .algorithm(run.config.algorithm)
                      .make_actor(program().models.make(run.config.model, spec), run.config.settings);
  run.algorithm->set_weights(c.weights);
  run.steps = c.progress.steps;
  return run;
}

}  // namespace parl
