#include "parl/algorithms/actor_critic_learner.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parl/agent/nonfinite.h"
#include "parl/agent/recurrent.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"

namespace parl::internal {
namespace {

OptimizerConfig optimizer_config(const ActorCriticConfig& config) {
  return {config.optimizer == OptimizerKind::kAdam ? "adam" : "rmsprop", config.eps, config.rmsprop_alpha,
          config.adam_beta1, config.adam_beta2};
}

// Of LossSums, what is added up: all but ratio_max_deviation.
constexpr double LossSums::*kAdded[] = {&LossSums::steps,
                                        &LossSums::policy,
                                        &LossSums::value,
                                        &LossSums::entropy,
                                        &LossSums::kl,
                                        &LossSums::ratio,
                                        &LossSums::rho_clipped,
                                        &LossSums::c_clipped,
                                        &LossSums::ratio_clipped,
                                        &LossSums::vs,
                                        &LossSums::vs_squared,
                                        &LossSums::error,
                                        &LossSums::error_squared,
                                        &LossSums::advantage,
                                        &LossSums::advantage_squared};

bool all_finite(const at::Tensor& tensor) {
  return !tensor.is_floating_point() || at::isfinite(tensor).all().item<bool>();
}

}  // namespace

ActorCriticLearner::ActorCriticLearner(Model& model, const ActorCriticConfig& config, const ReplicaFactory& replicas,
                                       at::Device device)
    : model_(model),
      config_(config),
      lr_(config.lr_schedule.empty() ? Schedule(config.lr) : Schedule(config.lr_schedule)),
      entropy_cost_(config.entropy_schedule.empty() ? Schedule(config.entropy_cost)
                                                    : Schedule(config.entropy_schedule)),
      parameters_(model),
      optimizer_(parameters_, optimizer_config(config)),
      team_(static_cast<int>(config.learner_threads)),
      own_targets_(config.minibatch_of == MinibatchOf::kUnrolls && config.recompute_targets) {
  for (int64_t i = 0; i < config.shards; ++i)
    rngs_.emplace_back(static_cast<uint64_t>(config.shuffle_seed), static_cast<uint64_t>(i));
  PARL_CHECK(config.learner_threads == 1 || replicas, "learner-threads {} needs a factory for replicas of the model",
             config.learner_threads);
  workers_.emplace_back(model_, parameters_, config_, device);
  for (int64_t i = 1; i < config.learner_threads; ++i) {
    std::shared_ptr<Model> replica = replicas();
    replica->to(device);
    replica->eval();
    replica_models_.push_back(replica);
    replica_parameters_.push_back(std::make_unique<FlatParameters>(*replica, parameters_));
    workers_.emplace_back(*replica, *replica_parameters_.back(), config_, device);
  }
}

void ActorCriticLearner::set_reducer(GradientReducer* reducer) {
  if (reducer == reducer_) return;
  PARL_CHECK_EQ(config_.shards, 1, "a learner among others has one part of the batch");
  reducer_ = reducer;
  rngs_ = {CounterRng(static_cast<uint64_t>(config_.shuffle_seed), static_cast<uint64_t>(reducer->rank()))};
}

LearnStats ActorCriticLearner::learn(const Batch& batch, int64_t agent_steps) {
  batch.check();
  for (auto& replica : replica_parameters_)
    replica->bump_versions();  // set_weights() may have been called on the model
  copy_buffers();
  const bool of_steps = config_.minibatch_of == MinibatchOf::kSteps;
  const int64_t items = of_steps ? batch.steps() : batch.unrolls();
  PARL_CHECK_EQ(batch.unrolls() % config_.shards, 0, "a batch of {} shards consists of as many equal parts",
                config_.shards);
  PARL_CHECK_GE(items / config_.shards, config_.minibatches,
                "a batch cannot be cut into more minibatches than it has {}", of_steps ? "steps" : "unrolls");
  const double lr = lr_.at(static_cast<double>(agent_steps));
  PolicyLossOptions options;
  options.vtrace = {config_.gamma, config_.lambda, config_.rho_clip, config_.c_clip, config_.pg_rho_clip, true};
  options.gae = config_.estimator == Estimator::kGae;
  options.value_cost = config_.value_cost;
  options.entropy_cost = entropy_cost_.at(static_cast<double>(agent_steps));
  options.clip = config_.clip;
  options.choices = model_.action_choices();

  Totals totals;
  bool go_on = true;
  for (int64_t pass = 0; pass < config_.epochs && go_on; ++pass) {
    if (!own_targets_ && (pass == 0 || config_.recompute_targets)) find_targets(batch, options);
    const std::vector<std::vector<int64_t>> orders = draw_orders(items);
    for (int64_t i = 0; i < config_.minibatches && go_on; ++i) {
      go_on = learn_minibatch(batch, minibatch(orders, items, i), options, lr, pass > 0, totals);
    }
    totals.passes += go_on;
  }
  LearnStats stats = statistics(totals, batch, lr, options.entropy_cost);
  ++learn_calls_;
  return stats;
}

bool ActorCriticLearner::learn_minibatch(const Batch& batch, const std::vector<int64_t>& index,
                                         const PolicyLossOptions& options, double lr, bool check_kl, Totals& totals) {
  const int64_t each = config_.minibatch_of == MinibatchOf::kSteps ? 1 : batch.length();
  const double steps = static_cast<double>(static_cast<int64_t>(index.size()) * each * learners());
  const double scale = config_.loss_reduction == Reduction::kMean ? 1 / steps : 1;
  LossSums sums = compute_gradients(batch, index, options, scale);
  double norm = reduce_gradients();
  if (reducer_) {
    sums = share(sums, std::isfinite(sums.total(options)) && std::isfinite(norm), batch);
    reducer_->sum(parameters_.gradients());
    norm = gradient_norm();
  }
  const double loss = sums.total(options) * scale;
  if (!std::isfinite(loss)) throw_nonfinite(batch, "loss");
  if (!std::isfinite(norm)) throw_nonfinite(batch, "gradient norm");
  if (check_kl && config_.target_kl > 0 && sums.kl / steps > config_.target_kl) return false;

  const double factor = config_.max_grad_norm > 0 ? std::min(1.0, config_.max_grad_norm / (norm + 1e-6)) : 1.0;
  team_.run([&](int i) { optimizer_.step_part(lr, factor, part_begin(i), part_begin(i + 1)); });
  optimizer_.finish_step();
  for (auto& replica : replica_parameters_) replica->bump_versions();
  totals.sums += sums;
  totals.loss += loss;
  totals.grad_norm += norm;
  totals.clipped += factor < 1;
  ++totals.updates;
  return true;
}

void ActorCriticLearner::find_targets(const Batch& batch, const PolicyLossOptions& options) {
  targets_ = {torch::empty({batch.steps()}), torch::empty({batch.steps()})};
  std::vector<int64_t> unrolls(static_cast<size_t>(batch.unrolls()));
  std::iota(unrolls.begin(), unrolls.end(), 0);
  team_.run([&](int i) {
    workers_[static_cast<size_t>(i)].find_targets(batch, part_of(unrolls, i, team_.size()), options, targets_);
  });
  if (!config_.normalize_advantage) return;
  const Normalization n = normalization(batch);
  targets_.advantage.sub_(n.mean).mul_(n.factor);
}

void ActorCriticLearner::copy_buffers() {
  torch::NoGradGuard no_grad;
  const auto from = model_.named_buffers();
  for (const auto& replica : replica_models_) {
    auto to = replica->named_buffers();
    for (const auto& buffer : from) to[buffer.key()].copy_(buffer.value());
  }
}

LossSums ActorCriticLearner::sums() const {
  LossSums sums;
  for (const GradientWorker& worker : workers_) sums += worker.sums();
  return sums;
}

LossSums ActorCriticLearner::compute_gradients(const Batch& batch, const std::vector<int64_t>& index,
                                               const PolicyLossOptions& options, double scale) {
  if (own_targets_) return unroll_gradients(batch, index, options, scale);
  team_.run([&](int i) {
    GradientWorker& worker = workers_[static_cast<size_t>(i)];
    const std::vector<int64_t> part = part_of(index, i, team_.size());
    worker.parameters().zero_gradients();
    if (config_.minibatch_of == MinibatchOf::kUnrolls) {
      worker.learn_unrolls(batch, targets_, part, options, scale);
    } else {
      worker.learn_steps(batch, targets_, part, options, scale);
    }
  });
  return sums();
}

LossSums ActorCriticLearner::unroll_gradients(const Batch& batch, const std::vector<int64_t>& index,
                                              const PolicyLossOptions& options, double scale) {
  const bool keep = config_.normalize_advantage;
  team_.run([&](int i) {
    GradientWorker& worker = workers_[static_cast<size_t>(i)];
    worker.parameters().zero_gradients();
    worker.forward(batch, part_of(index, i, team_.size()), options, scale, keep);
  });
  if (keep) {
    const Normalization n = normalization(batch);
    team_.run([&](int i) { workers_[static_cast<size_t>(i)].backward(n.mean, n.factor, scale); });
  }
  return sums();
}

Normalization ActorCriticLearner::normalization(const Batch& batch) {
  const LossSums mine = sums();
  std::vector<double> all = {mine.steps, mine.advantage, mine.advantage_squared};
  if (reducer_) share(all, std::isfinite(mine.advantage) && std::isfinite(mine.advantage_squared), batch);
  const double mean = all[1] / all[0], variance = std::max(0.0, all[2] / all[0] - mean * mean);
  return {mean, 1 / (std::sqrt(variance) + 1e-8)};
}

void ActorCriticLearner::share(std::vector<double>& values, bool finite, const Batch& batch) {
  const auto size = static_cast<size_t>(reducer_->size()), rank = static_cast<size_t>(reducer_->rank());
  if (!finite) std::fill(values.begin(), values.end(), 0.0);  // else every sum were NaN, which hides whose it is
  values.resize(values.size() + size);
  const size_t flags = values.size() - size;
  values[flags + rank] = finite ? 0 : 1;
  reducer_->sum(std::span(values));
  if (!finite) throw_nonfinite(batch, "loss or gradient norm");
  for (size_t r = 0; r < size; ++r) {
    if (values[flags + r] != 0) raise("stopping: learner {} of {} met NaN or inf; its own message says where", r, size);
  }
  values.resize(flags);
}

LossSums ActorCriticLearner::share(const LossSums& mine, bool finite, const Batch& batch) {
  const auto size = static_cast<size_t>(reducer_->size()), rank = static_cast<size_t>(reducer_->rank());
  constexpr size_t kSums = std::size(kAdded);
  std::vector<double> all(kSums + 2 * size);  // the last: each learner's own place, twice
  for (size_t i = 0; i < kSums; ++i) all[i] = mine.*kAdded[i];
  all[kSums + rank] = mine.ratio_max_deviation;
  all[kSums + size + rank] = static_cast<double>(rngs_[0].position());
  share(all, finite, batch);
  LossSums sums;
  for (size_t i = 0; i < kSums; ++i) sums.*kAdded[i] = all[i];
  const auto own = all.begin() + kSums;
  sums.ratio_max_deviation = *std::max_element(own, own + static_cast<std::ptrdiff_t>(size));
  positions_.assign(own + static_cast<std::ptrdiff_t>(size), all.end());
  return sums;
}

double ActorCriticLearner::gradient_norm() {
  std::vector<double> squares(static_cast<size_t>(team_.size()));
  team_.run([&](int i) {
    squares[static_cast<size_t>(i)] = parameters_.reduce_gradients({}, part_begin(i), part_begin(i + 1));
  });
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

double ActorCriticLearner::reduce_gradients() {
  std::vector<FlatParameters*> others;
  for (auto& replica : replica_parameters_) others.push_back(replica.get());
  std::vector<double> squares(static_cast<size_t>(team_.size()));
  team_.run([&](int i) {
    squares[static_cast<size_t>(i)] = parameters_.reduce_gradients(others, part_begin(i), part_begin(i + 1));
  });
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

int64_t ActorCriticLearner::part_begin(int member) const {
  return parameters_.size() / FlatParameters::kAlign * member / team_.size() * FlatParameters::kAlign;
}

std::vector<int64_t> ActorCriticLearner::shuffled(CounterRng& rng, int64_t n) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[rng.below(static_cast<uint32_t>(i + 1))]);
  return order;
}

std::vector<std::vector<int64_t>> ActorCriticLearner::draw_orders(int64_t items) {
  std::vector<std::vector<int64_t>> orders;
  if (config_.minibatches == 1) return orders;
  for (CounterRng& rng : rngs_) orders.push_back(shuffled(rng, items / static_cast<int64_t>(rngs_.size())));
  return orders;
}

std::vector<int64_t> ActorCriticLearner::minibatch(const std::vector<std::vector<int64_t>>& orders, int64_t items,
                                                   int64_t i) const {
  std::vector<int64_t> index;
  if (orders.empty()) {
    index.resize(static_cast<size_t>(items));
    std::iota(index.begin(), index.end(), 0);
  }
  int64_t first = 0;
  for (const std::vector<int64_t>& order : orders) {
    for (const int64_t item : part_of(order, i, config_.minibatches)) index.push_back(first + item);
    first += static_cast<int64_t>(order.size());
  }
  return index;
}

LearnStats ActorCriticLearner::statistics(const Totals& totals, const Batch& batch, double lr,
                                          double entropy_cost) const {
  const LossSums& s = totals.sums;
  const double n = s.steps, updates = static_cast<double>(totals.updates);
  auto variance = [n](double sum, double squared) { return std::max(0.0, squared / n - (sum / n) * (sum / n)); };
  const double vs_variance = variance(s.vs, s.vs_squared);
  const double explained = vs_variance > 0 ? 1 - variance(s.error, s.error_squared) / vs_variance : 0;
  LearnStats stats = {{"loss", totals.loss / updates},
                      {"policy_loss", s.policy / n},
                      {"value_loss", s.value / n},
                      {"entropy", s.entropy / n},
                      {"kl", s.kl / n},
                      {"rho_mean", s.ratio / n},
                      {"rho_max_deviation", s.ratio_max_deviation},
                      {"rho_clipped", s.rho_clipped / n},
                      {"c_clipped", s.c_clipped / n},
                      {"ratio_clipped", s.ratio_clipped / n},
                      {"explained_variance", explained},
                      {"grad_norm", totals.grad_norm / updates},
                      {"grad_clipped", totals.clipped / updates},
                      {"updates", updates},
                      {"passes", static_cast<double>(totals.passes)},
                      {"lr", lr},
                      {"entropy_cost", entropy_cost}};
  if (batch.version.defined()) {
    const at::Tensor lag = learn_calls_ - batch.version.cpu().to(at::kDouble);
    stats.emplace_back("policy_lag_min", lag.min().item<double>());
    stats.emplace_back("policy_lag_mean", lag.mean().item<double>());
    stats.emplace_back("policy_lag_max", lag.max().item<double>());
  }
  return stats;
}

void ActorCriticLearner::throw_nonfinite(const Batch& batch, const std::string& fallback) const {
  std::string name = parameters_.find_nonfinite(false);
  const std::pair<const char*, const at::Tensor&> inputs[] = {{"obs", batch.obs},
                                                              {"final_obs", batch.final_obs},
                                                              {"reward", batch.reward},
                                                              {"state", batch.state},
                                                              {"behaviour_logits", batch.behaviour_logits}};
  for (const auto& [input, tensor] : inputs) {
    if (name.empty() && tensor.defined() && !all_finite(tensor)) name = input;
  }
  if (name.empty()) {
    name = parameters_.find_nonfinite(true);
    if (!name.empty()) name = "gradient of " + name;
  }
  if (name.empty()) name = fallback;
  Weights dump = model_.get_weights();
  for (const auto& entry : parameters_.entries()) {
    dump.entries.push_back({"gradient/" + entry.name, to_array(entry.gradient)});
  }
  throw NonFiniteError(
      name,
      fmt::format("NaN or inf in '{}' (found at the {}); the weights were not changed by it. Lower the "
                  "learning rate or max-grad-norm, or look at the dump",
                  name, fallback),
      batch, std::move(dump));
}

Weights ActorCriticLearner::get_state() const {
  Weights state;
  optimizer_.append_state(state);
  state.entries.push_back({"counters", Array::from<int64_t>({learn_calls_})});
  std::vector<int64_t> positions = positions_;
  if (positions.empty()) {
    for (const CounterRng& rng : rngs_) positions.push_back(static_cast<int64_t>(rng.position()));
  }
  const auto count = static_cast<int64_t>(positions.size());
  state.entries.push_back({"shuffle/position", Array::from<int64_t>(std::span<const int64_t>(positions), {count})});
  return state;
}

void ActorCriticLearner::set_state(const Weights& state) {
  const int64_t calls = get_entry(state, "counters").data<int64_t>()[0];
  const Array& positions = get_entry(state, "shuffle/position");
  const int64_t* position = positions.data<int64_t>();
  const int64_t parts = reducer_ ? reducer_->size() : config_.shards;
  optimizer_.set_state(state);
  learn_calls_ = calls;
  // A run that goes on with another number of learners: each takes a place that none has passed.
  const bool same = positions.size() == parts;
  const int64_t furthest = *std::max_element(position, position + positions.size());
  for (size_t i = 0; i < rngs_.size(); ++i) {
    const int64_t at = reducer_ ? reducer_->rank() : static_cast<int64_t>(i);
    rngs_[i].set_position(static_cast<uint64_t>(same ? position[at] : furthest));
  }
  positions_.clear();
  if (reducer_ && same) positions_.assign(position, position + parts);
}

}  // namespace parl::internal
