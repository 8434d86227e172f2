#include "parl/train/es_trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <deque>

#include "parl/core/check.h"
#include "parl/remote/remote.h"
#include "parl/train/es_worker.h"
#include "parl/train/replacements.h"
#include "parl/train/run_loop.h"

namespace parl {
namespace {

constexpr std::chrono::milliseconds kAskEvery{100};
constexpr int64_t kTasksPerWorker = 4;  // of a generation: the quick ones take what the slow ones leave

class EsTrainer : public RunLoop {
 public:
  EsTrainer(const TrainConfig& config, const TrainHooks& hooks);

 protected:
  void start() override {}
  bool collect() override;
  void learn() override;
  void publish() override { weights_ = Versioned<Weights>(progress_.updates, algorithm_->get_weights()); }
  void stop() override;
  int64_t replaced() const override { return replacements_.count(); }

 private:
  struct Worker {
    ActorConfig config;
    Remote<EsWorker> remote;
    EsTask task;
    Clock::time_point since;
  };
  Es& es() const { return static_cast<Es&>(*algorithm_); }
  std::deque<EsTask> tasks() const;
  void give(size_t worker, const EsTask& task);
  void replace(size_t worker, const RemoteError& error);
  // A worker whose task has taken longer than --actor-timeout.
  std::optional<size_t> overdue() const;

  RemoteManager manager_;
  Replacements replacements_;
  Versioned<Weights> weights_;
  std::vector<Worker> workers_;
  std::vector<Future<EsOutcome>> futures_;              // of each worker; invalid: idle
  std::vector<std::pair<EsTask, EsOutcome>> outcomes_;  // of this generation
};

EsTrainer::EsTrainer(const TrainConfig& config, const TrainHooks& hooks)
    : RunLoop(config, hooks), manager_(config.engine), replacements_(config.max_replacements) {
  restored_.reset();  // what workers have follows from the generation's number
  for (int64_t i = 0; i < config_.actors; ++i) {
    Worker worker;
    worker.config = actor_config(config_, i);
    workers_.push_back(std::move(worker));
  }
  wait_for_workers(manager_);
  auto remotes = manager_.create_each<EsWorker>(static_cast<int>(workers_.size()),
                                                [this](int i) { return workers_[static_cast<size_t>(i)].config; });
  for (size_t i = 0; i < remotes.size(); ++i) workers_[i].remote = std::move(remotes[i]);
  futures_.resize(workers_.size());
  publish();
}

std::deque<EsTask> EsTrainer::tasks() const {
  const int64_t pairs = config_.settings.as<EsConfig>().pairs;
  const int64_t each = std::max<int64_t>(1, pairs / (config_.actors * kTasksPerWorker));
  std::deque<EsTask> out;
  for (int64_t first = 0; first < pairs; first += each) {
    out.push_back({es().generation(), first, std::min(each, pairs - first)});
  }
  return out;
}

void EsTrainer::give(size_t worker, const EsTask& task) {
  Worker& w = workers_[worker];
  w.task = task;
  w.since = Clock::now();
  futures_[worker] = w.remote.async()->evaluate(weights_, task);
}

void EsTrainer::replace(size_t worker, const RemoteError& error) {
  Worker& w = workers_[worker];
  const std::string name = fmt::format("worker {}", worker);
  replacements_.failed(name, error);
  futures_[worker] = {};
  w.remote.reset();
  w.remote = manager_.create<EsWorker>(w.config);
  replacements_.replaced(name);
}

std::optional<size_t> EsTrainer::overdue() const {
  for (size_t i = 0; config_.actor_timeout > 0 && i < workers_.size(); ++i) {
    if (futures_[i].valid() && seconds_since(workers_[i].since) > config_.actor_timeout) return i;
  }
  return std::nullopt;
}

bool EsTrainer::collect() {
  outcomes_.clear();
  std::deque<EsTask> left = tasks();
  const ScopedTimer timer(phases_.wait);
  const size_t wanted = left.size();
  while (outcomes_.size() < wanted) {
    for (size_t i = 0; i < workers_.size() && !left.empty(); ++i) {
      if (futures_[i].valid()) continue;
      give(i, left.front());
      left.pop_front();
    }
    const auto ready = wait_any(futures_, kAskEvery);
    if (leave_off()) return false;
    const auto late = ready ? std::nullopt : overdue();
    if (!ready && !late) continue;
    const size_t i = ready ? *ready : *late;
    try {
      EsOutcome outcome = late ? futures_[i].get(std::chrono::nanoseconds(0)) : futures_[i].get();
      outcomes_.emplace_back(workers_[i].task, std::move(outcome));
    } catch (const RemoteError& error) {
      left.push_front(workers_[i].task);
      replace(i, error);
    }
  }
  return true;
}

// Everything in the order of the pairs, whoever was first.
void EsTrainer::learn() {
  std::sort(outcomes_.begin(), outcomes_.end(),
            [](const auto& a, const auto& b) { return a.first.first < b.first.first; });
  std::vector<PairReturns> returns;
  int64_t steps = 0;
  for (const auto& [task, outcome] : outcomes_) {
    for (size_t i = 0; i + 1 < outcome.returns.size(); i += 2) {
      returns.push_back({outcome.returns[i], outcome.returns[i + 1]});
    }
    for (const Episode& episode : outcome.episodes) account(episode);
    steps += outcome.steps;
    phases_.env += outcome.env_seconds;
    phases_.act += outcome.act_seconds;
  }
  outcomes_.clear();
  const auto started = Clock::now();
  const LearnStats stats = es().update(returns, progress_.steps);
  phases_.learn += seconds_since(started);
  progress_.steps += steps;
  ++progress_.updates;
  log_->add_lag(0);
  log_->add_update(stats);
  if (hooks_.on_update) hooks_.on_update({progress_.steps, progress_.updates, &stats, nullptr});
}

void EsTrainer::stop() {
  futures_.clear();
  manager_.close(std::chrono::seconds(5));
}

}  // namespace

TrainSummary train_es(const TrainConfig& config, const TrainHooks& hooks) {
  TrainConfig exact = config;
  exact.deterministic = true;  // it always is
  return EsTrainer(exact, hooks).run();
}

}  // namespace parl
