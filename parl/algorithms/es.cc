#include "parl/algorithms/es.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "parl/agent/nonfinite.h"
#include "parl/agent/policy_act.h"
#include "parl/agent/schedule.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/core/memory.h"
#include "parl/core/rng.h"

namespace parl {
namespace {

constexpr uint64_t kNoiseStream = 3'000'000'019;  // derive_seed(seed, this): the table; its next: the places in it

}  // namespace

void EsConfig::check() const {
  PARL_CHECK(pairs >= 1 && pairs <= 1'000'000, "pairs is {}, expected 1..1000000", pairs);
  PARL_CHECK(sigma > 0, "sigma is {}, expected more than 0", sigma);
  PARL_CHECK(lr >= 0 && eps > 0, "lr is {} and eps {}: lr must not be negative, eps must be positive", lr, eps);
  PARL_CHECK(weight_decay >= 0, "weight-decay is {}, expected 0 or more", weight_decay);
  PARL_CHECK(episodes >= 1, "episodes is {}, expected at least 1", episodes);
  PARL_CHECK(noise_table >= 1, "noise-table is {}, expected at least 1", noise_table);
  if (!lr_schedule.empty()) Schedule{lr_schedule};
}

std::vector<double> centred_ranks(std::span<const double> values) {
  const size_t n = values.size();
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> out(n, 0.0);
  for (size_t first = 0; n > 1 && first < n;) {
    size_t last = first;
    while (last + 1 < n && values[order[last + 1]] == values[order[first]]) ++last;
    const double rank = 0.5 * static_cast<double>(first + last) / static_cast<double>(n - 1) - 0.5;
    for (; first <= last; ++first) out[order[first]] = rank;
  }
  return out;
}

NoiseTable::NoiseTable(uint64_t seed, int64_t size) : seed_(derive_seed(seed, kNoiseStream + 1)) {
  values_.resize(static_cast<size_t>(size + size % 2));
  CounterRng rng(derive_seed(seed, kNoiseStream), 0);
  for (size_t i = 0; i < values_.size(); i += 2) {  // Box and Muller 1958
    const double radius = std::sqrt(-2 * std::log(1 - rng.uniform_double())),
                 angle = 2 * std::numbers::pi * rng.uniform_double();
    values_[i] = static_cast<float>(radius * std::cos(angle));
    values_[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

std::span<const float> NoiseTable::piece(int64_t generation, int64_t pair, int64_t count) const {
  const auto size = static_cast<int64_t>(values_.size());
  PARL_CHECK(count <= size, "the network has {} parameters, more than the {} numbers of noise: raise noise-table",
             count, size);
  CounterRng rng(derive_seed(seed_, static_cast<uint64_t>(generation)), static_cast<uint64_t>(pair));
  const auto places = static_cast<double>(size - count + 1);
  const int64_t first = std::min(size - count, static_cast<int64_t>(rng.uniform_double() * places));
  return std::span(values_).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
}

Es::Es(std::shared_ptr<Model> model, EsConfig config, uint64_t seed)
    : model_(std::move(model)), config_(std::move(config)), seed_(seed) {
  PARL_CHECK(model_ != nullptr, "an algorithm needs a model");
  config_.check();
  model_->eval();
  parameters_ = std::make_unique<FlatParameters>(*model_);
  for (const auto& entry : parameters_->entries()) count_ += entry.parameter.numel();
  PARL_CHECK(count_ <= config_.noise_table,
             "the network has {} parameters, more than the {} numbers of noise: raise --noise-table", count_,
             config_.noise_table);
  const int64_t memory = available_memory_bytes(), wanted = config_.noise_table / 1'000'000 * 4;
  PARL_CHECK(memory <= 0 || wanted <= memory / 1'000'000,
             "--noise-table {} needs {} MB of memory in every process, {} MB are available", config_.noise_table,
             wanted, memory / 1'000'000);
}

Es::~Es() = default;

template <typename F>
void Es::each_run(F&& f) const {
  int64_t at = 0;
  for (const auto& entry : parameters_->entries()) {
    f(entry.offset, at, entry.parameter.numel());
    at += entry.parameter.numel();
  }
}

const NoiseTable& Es::noise() {
  if (!noise_) noise_ = std::make_unique<NoiseTable>(seed_, config_.noise_table);
  return *noise_;
}

FlatOptimizer& Es::optimizer() const {
  if (!optimizer_) {
    optimizer_ = std::make_unique<FlatOptimizer>(*parameters_, OptimizerConfig{"adam", config_.eps, 0, 0.9, 0.999});
  }
  return *optimizer_;
}

ActOutput Es::sample(const at::Tensor& obs, const at::Tensor& uniforms) {
  return policy_act(*model_, {obs, uniforms}, at::kCPU);
}

ActOutput Es::predict(const at::Tensor& obs) { return policy_act(*model_, {obs}, at::kCPU); }

LearnStats Es::learn(const Batch&, int64_t) {
  raise("es learns from the returns of whole episodes (update()), not from batches of steps");
}

void Es::perturb(int64_t generation, int64_t pair, int sign) {
  torch::NoGradGuard no_grad;
  if (!theta_.defined()) theta_ = parameters_->values().clone();
  const std::span<const float> noise = this->noise().piece(generation, pair, count_);
  const auto scale = static_cast<float>(sign * config_.sigma);
  const float* theta = theta_.const_data_ptr<float>();
  float* out = parameters_->values().mutable_data_ptr<float>();
  each_run([&](int64_t flat, int64_t at, int64_t count) {
    const float* eps = noise.data() + at;
    for (int64_t i = 0; i < count; ++i) out[flat + i] = theta[flat + i] + scale * eps[i];
  });
  parameters_->bump_versions();
}

void Es::settle() {
  if (!theta_.defined()) return;
  torch::NoGradGuard no_grad;
  parameters_->values().copy_(theta_);
  theta_ = at::Tensor();
  parameters_->bump_versions();
}

void Es::set_weights(const Weights& weights) {
  theta_ = at::Tensor();
  model_->set_weights(weights);
}

at::Tensor Es::gradient_estimate(int64_t generation, std::span<const PairReturns> returns) {
  PARL_CHECK(!returns.empty(), "a generation has at least one pair");
  std::vector<double> flat;
  for (const PairReturns& r : returns) flat.insert(flat.end(), {r.plus, r.minus});
  const std::vector<double> rank = centred_ranks(flat);
  at::Tensor out = torch::zeros({count_});
  float* g = out.mutable_data_ptr<float>();
  for (size_t i = 0; i < returns.size(); ++i) {
    const auto weight = static_cast<float>((rank[2 * i] - rank[2 * i + 1]) / static_cast<double>(flat.size()));
    if (weight == 0) continue;
    const std::span<const float> eps = noise().piece(generation, static_cast<int64_t>(i), count_);
    for (int64_t k = 0; k < count_; ++k) g[k] += weight * eps[static_cast<size_t>(k)];
  }
  return out;
}

LearnStats Es::update(std::span<const PairReturns> returns, int64_t agent_steps) {
  torch::NoGradGuard no_grad;
  double sum = 0, most = -INFINITY;
  for (const PairReturns& r : returns) {
    if (!std::isfinite(r.plus) || !std::isfinite(r.minus))
      throw NonFiniteError("return", "an episode's return is NaN or inf; nothing was learnt from this generation");
    sum += r.plus + r.minus;
    most = std::max({most, r.plus, r.minus});
  }
  settle();
  const at::Tensor gradient = gradient_estimate(generation_, returns);
  const float* g = gradient.const_data_ptr<float>();
  const float* theta = parameters_->values().const_data_ptr<float>();
  float* out = parameters_->gradients().mutable_data_ptr<float>();
  const auto decay = static_cast<float>(config_.weight_decay);
  each_run([&](int64_t flat, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[flat + i] = decay * theta[flat + i] - g[at + i];
  });
  const double lr =
      (config_.lr_schedule.empty() ? Schedule(config_.lr) : Schedule(config_.lr_schedule)).at(double(agent_steps));
  optimizer().step(lr);
  ++generation_;
  return {{"return_mean", sum / static_cast<double>(2 * returns.size())},
          {"return_max", most},
          {"grad_norm", gradient.to(at::kDouble).norm().item<double>()},
          {"weight_norm", parameters_->values().to(at::kDouble).norm().item<double>()},
          {"updates", 1.0},
          {"lr", lr}};
}

Weights Es::get_state() const {
  Weights state;
  optimizer().append_state(state);
  state.entries.push_back({"es/generation", Array::from<int64_t>({generation_})});
  return state;
}

void Es::set_state(const Weights& state) {
  const int64_t generation = get_entry(state, "es/generation").data<int64_t>()[0];
  optimizer().set_state(state);
  generation_ = generation;
}

}  // namespace parl
