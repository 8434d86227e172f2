#include "parl/train/trainer.h"

#include <torch/torch.h>

#include <memory>
#include <utility>

#include "parl/agent/nonfinite.h"
#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/data/batch_buffer.h"
#include "parl/train/actor_pool.h"
#include "parl/train/central_source.h"
#include "parl/train/learners.h"
#include "parl/train/program.h"
#include "parl/train/replay_store.h"
#include "parl/train/run_loop.h"

namespace parl {
namespace {

// Actors collect rollouts, learn() learns them.
class Trainer : public RunLoop {
 public:
  // `group`: null when this learner is alone.
  Trainer(const TrainConfig& config, const TrainHooks& hooks, std::shared_ptr<LearnerGroup> group);

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
  std::unique_ptr<Algorithm> make_predictor() const;
  std::optional<Rollout> next_rollout();
  void account_rollout(const Rollout& rollout);
  void scale_rewards(const Batch& batch);
  void dump_batch(const Batch& batch, const NonFiniteError& error) const;

  std::unique_ptr<RemoteManager> manager_;
  std::unique_ptr<RolloutSource> source_;
  std::vector<Rollout> rollouts_;
  BatchBuffer buffer_;
};

Trainer::Trainer(const TrainConfig& config, const TrainHooks& hooks, std::shared_ptr<LearnerGroup> group)
    : RunLoop(config, hooks, std::move(group)) {
  start_actors();
}

void Trainer::start_actors() {
  manager_ = std::make_unique<RemoteManager>(config_.engine);
  wait_for_workers(*manager_);
  std::vector<ActorConfig> actors;
  for (int64_t i = 0; i < config_.actors; ++i) {
    actors.push_back(actor_config(config_, i));
    actors.back().generation = progress_.generation * 1'000'000;  // replacements count upwards from here
  }
  RolloutSource::Options options;
  options.actors = static_cast<int>(config_.actors);
  options.deterministic = config_.deterministic;
  options.on_policy = config_.max_lag == 0;
  options.max_ahead = config_.max_ahead;
  options.max_replacements = config_.max_replacements;
  const bool exact = restored_ && config_.deterministic && restored_->deterministic;
  if (exact) team_.take_part(*restored_, config_.actors);
  std::vector<Rollout> waiting;
  if (exact && !options.on_policy) waiting = std::move(restored_->waiting);
  options.first_version = progress_.updates;
  if (config_.deterministic) options.first_sequence = progress_.updates + (waiting.empty() ? 0 : 1);
  options.timeout = config_.actor_timeout;
  options.packed = config_.engine.starts_with("tcp:");
  const AlgorithmEntry& entry = program().algorithm(config_.algorithm);
  if (entry.central) {
    source_ = std::make_unique<CentralSource>(*manager_, options, entry.central(config_), actors, env_spec_,
                                              [this] { return make_predictor(); });
  } else {
    source_ = std::make_unique<ActorPool>(*manager_, options, actors);
  }
  if (exact) source_->restore(restored_->actors, std::move(waiting));
  restored_.reset();
  publish();
}

// What chooses actions in this process: like an actor's, but on the learner's device.
std::unique_ptr<Algorithm> Trainer::make_predictor() const {
  if (config_.device == "cpu")
    return make_actor(config_.algorithm, config_.settings, config_.network(), config_.policies, env_spec_);
  return make_learner(config_, env_spec_);  // who never learns has no optimizer
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
    if (!leave_off()) return false;
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
      ++news_.dropped_rollouts;
      source_->learnt(rollout->steps());
      continue;
    }
    news_.lags.push_back(lag);
    rollouts_.push_back(std::move(*rollout));
  }
  return true;
}

void Trainer::account_rollout(const Rollout& rollout) {
  news_.env_seconds += rollout.env_seconds * static_cast<double>(config_.pool_threads);
  news_.act_seconds += rollout.act_seconds;
  news_.episodes.insert(news_.episodes.end(), rollout.episodes.begin(), rollout.episodes.end());
}

// Divided by the deviation of the discounted returns up to this batch's, its own included. The mean stays: it says
// which rewards are good.
void Trainer::scale_rewards(const Batch& batch) {
  for (const Rollout& rollout : rollouts_) progress_.returns_so_far.merge(rollout.returns);
  at::Tensor reward = batch.reward;
  reward.div_(std::sqrt(progress_.returns_so_far.variance() + 1e-8));
}

void Trainer::learn() {
  const auto started = Clock::now();
  const Batch batch = buffer_.assemble(rollouts_);
  if (config_.normalize_rewards) scale_rewards(batch);
  rollouts_.clear();  // their memory goes back to the actors while we learn
  LearnStats stats;
  try {
    const std::string device = has_replay(*algorithm_) ? "cpu" : device_of(config_);
    stats = algorithm_->learn(device == "cpu" ? batch : batch.to(at::Device(device)), progress_.steps);
  } catch (const NonFiniteError& error) {
    dump_batch(batch, error);
    throw;
  }
  phases_.learn += seconds_since(started) * static_cast<double>(algorithm_->learner_threads() * team_.size());
  progress_.steps += batch.steps() * team_.size();
  source_->learnt(batch.steps());
  ++progress_.updates;
  const LearnStats more = source_->take_statistics();
  stats.insert(stats.end(), more.begin(), more.end());
  if (log_) log_->add_update(stats);
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

}  // namespace

TrainSummary train(const TrainConfig& given, const TrainHooks& hooks) {
  const TrainConfig config = with_learner_place(given);
  config.check();
  if (config.device != "cpu" && !torch::cuda::is_available()) {
    throw SettingsError(fmt::format(
        "--device {}: this machine, or the libtorch that this program was built with, has no CUDA; use --device cpu",
        config.device));
  }
  const bool begins = config.init_from.empty() || latest_checkpoint(config.run);
  if (!begins) find_checkpoint(config.init_from, true);  // before there is a directory
  const AlgorithmEntry& entry = program().algorithm(config.algorithm);
  if (entry.train) return entry.train(config, hooks);
  if (config.learners == 1) return Trainer(config, hooks, nullptr).run();
  return train_with_others(config, hooks, [&](const TrainConfig& own, std::shared_ptr<LearnerGroup> group) {
    return Trainer(own, hooks, std::move(group)).run();
  });
}

}  // namespace parl
