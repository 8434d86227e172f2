#include "parl/algorithms/pqn.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "parl/agent/nonfinite.h"
#include "parl/agent/optimizer.h"
#include "parl/agent/schedule.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/epsilon_greedy.h"
#include "parl/core/check.h"
#include "parl/core/rng.h"

namespace parl {

at::Tensor q_lambda_returns(const at::Tensor& reward, const at::Tensor& terminated, const at::Tensor& truncated,
                            const at::Tensor& next_value, double gamma, double lambda) {
  const int64_t length = reward.size(1);
  const at::Tensor out = torch::empty_like(reward);
  for (int64_t t = length - 1; t >= 0; --t) {
    const at::Tensor next = next_value.select(1, t);
    at::Tensor after = next;
    if (t + 1 < length) {
      const at::Tensor traced = lambda * out.select(1, t + 1) + (1 - lambda) * next;
      after = at::where(truncated.select(1, t), next, traced);
    }
    const at::Tensor goes_on = terminated.select(1, t).logical_not();
    out.select(1, t).copy_(reward.select(1, t) + gamma * at::where(goes_on, after, torch::zeros_like(after)));
  }
  return out;
}

void PqnConfig::check() const {
  PARL_CHECK(gamma >= 0 && gamma <= 1, "gamma is {}, expected 0..1", gamma);
  PARL_CHECK(lambda >= 0 && lambda <= 1, "lambda is {}, expected 0..1", lambda);
  PARL_CHECK(lr >= 0 && eps > 0, "lr is {} and eps {}: lr must not be negative, eps must be positive", lr, eps);
  PARL_CHECK(optimizer == "radam" || optimizer == "adam", "optimizer '{}' is unknown{}; there are radam and adam",
             optimizer, did_you_mean(optimizer, {"radam", "adam"}));
  PARL_CHECK(max_grad_norm >= 0, "max-grad-norm is {}, expected 0 or more", max_grad_norm);
  PARL_CHECK(epochs >= 1, "epochs is {}, expected at least 1", epochs);
  PARL_CHECK(minibatches >= 1, "minibatches is {}, expected at least 1", minibatches);
  PARL_CHECK(eval_epsilon >= 0 && eval_epsilon <= 1, "eval-epsilon is {}, expected 0..1", eval_epsilon);
  if (!lr_schedule.empty()) Schedule{lr_schedule};
  Schedule{exploration}.check_within(0, 1, "exploration");
}

struct Pqn::Learner {
  Learner(Model& model, const PqnConfig& config)
      : parameters(model),
        optimizer(parameters, {config.optimizer, config.eps, 0, 0.9, 0.999}),
        lr(config.lr_schedule.empty() ? Schedule(config.lr) : Schedule(config.lr_schedule)),
        epsilon(config.exploration) {}

  FlatParameters parameters;
  FlatOptimizer optimizer;
  Schedule lr, epsilon;
  int64_t calls = 0;
};

Pqn::Pqn(std::shared_ptr<Model> model, PqnConfig config, const std::string& device)
    : model_(std::move(model)), config_(std::move(config)), device_(device), epsilon_(0) {
  PARL_CHECK(model_ != nullptr, "an algorithm needs a model");
  config_.check();
  epsilon_ = Schedule(config_.exploration).at(0);
  model_->to(at::Device(device_));
  model_->eval();
}

Pqn::~Pqn() = default;

Pqn::Learner& Pqn::learner() const {
  if (!learner_) learner_ = std::make_unique<Learner>(*model_, config_);
  return *learner_;
}

ActOutput Pqn::predict(const at::Tensor& obs) {
  torch::NoGradGuard no_grad;
  return greedy_of(model_->forward(obs.to(at::Device(device_))).logits.to(at::kCPU).contiguous());
}

ActOutput Pqn::sample(const at::Tensor& obs, const at::Tensor& uniforms) {
  ActOutput out = predict(obs);
  explore(out.action, uniforms, out.logits, epsilon(), false);
  return out;
}

at::Tensor Pqn::returns(const Batch& batch) {
  torch::NoGradGuard no_grad;
  const int64_t unrolls = batch.unrolls(), length = batch.length();
  const auto best = [&](const at::Tensor& obs) {
    return std::get<0>(model_->forward(obs.to(at::Device(device_))).logits.max(1)).to(batch.reward.device());
  };
  const at::Tensor next = torch::empty_like(batch.reward);
  next.narrow(1, 0, length - 1).copy_(std::get<0>(batch.behaviour_logits.narrow(1, 1, length - 1).max(2)));
  next.select(1, length - 1).copy_(best(batch.obs.select(1, length)));
  if (batch.final_index.defined() && batch.final_index.numel() > 0) {
    next.view({unrolls * length}).index_put_({batch.final_index}, best(batch.final_obs));
  }
  return q_lambda_returns(batch.reward, batch.terminated, batch.truncated, next, config_.gamma, config_.lambda);
}

void Pqn::update(const at::Tensor& obs, const at::Tensor& action, const at::Tensor& target, double lr, Sums& sums) {
  Learner& l = *learner_;
  l.parameters.zero_gradients();
  const std::unique_ptr<Recording> recording = model_->record(obs);
  at::Tensor d_logits;
  {
    torch::NoGradGuard no_grad;
    const at::Tensor all = recording->output().logits, index = action.unsqueeze(1);
    const at::Tensor q = all.gather(1, index).squeeze(1), error = q - target;
    const double loss = 0.5 * error.pow(2).mean().item<double>();
    if (!std::isfinite(loss)) {
      throw NonFiniteError("loss",
                           "NaN or inf in the loss; the weights were not changed by it. Lower the learning rate, or "
                           "look at the rewards");
    }
    d_logits = torch::zeros_like(all).scatter(1, index, (error / static_cast<double>(error.numel())).unsqueeze(1));
    sums.loss += loss;
    sums.q += q.mean().item<double>();
    sums.error += error.abs().mean().item<double>();
  }
  recording->backward(d_logits, torch::zeros_like(recording->output().value));
  const double norm = l.parameters.gradient_norm();
  if (!std::isfinite(norm)) {
    const std::string name = l.parameters.find_nonfinite(true);
    throw NonFiniteError("gradient of " + name, fmt::format("NaN or inf in the gradient of '{}'; the weights were not "
                                                            "changed by it. Lower the learning rate or max-grad-norm",
                                                            name));
  }
  l.optimizer.step(lr, config_.max_grad_norm > 0 ? std::min(1.0, config_.max_grad_norm / (norm + 1e-6)) : 1.0);
  sums.norm += norm;
}

LearnStats Pqn::learn(const Batch& batch, int64_t agent_steps) {
  batch.check();
  Learner& l = learner();
  const int64_t n = batch.steps(), length = batch.length();
  PARL_CHECK(config_.minibatches <= n, "minibatches is {}, more than the {} steps of a batch", config_.minibatches, n);
  const double steps = static_cast<double>(agent_steps + n), lr = l.lr.at(static_cast<double>(agent_steps));
  const double lag =
      batch.version.defined() ? static_cast<double>(l.calls) - batch.version.to(at::kDouble).mean().item<double>() : 0;
  const at::Device device(device_);
  const at::Tensor target = returns(batch).flatten().to(device), action = batch.action.flatten().to(device);
  const at::Tensor obs = batch.obs.to(device).flatten(0, 1);  // rows of b * (T + 1) + t
  CounterRng rng(static_cast<uint64_t>(config_.shuffle_seed), static_cast<uint64_t>(l.calls));
  std::vector<int64_t> order(static_cast<size_t>(n)), rows(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  Sums sums;
  for (int64_t epoch = 0; epoch < config_.epochs; ++epoch) {
    for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[rng.below(static_cast<uint32_t>(i + 1))]);
    for (size_t i = 0; i < order.size(); ++i) rows[i] = order[i] / length * (length + 1) + order[i] % length;
    const at::Tensor steps_of = torch::tensor(order, at::kLong).to(device);
    const at::Tensor rows_of = torch::tensor(rows, at::kLong).to(device);
    for (int64_t m = 0; m < config_.minibatches; ++m) {
      const int64_t begin = n * m / config_.minibatches, count = n * (m + 1) / config_.minibatches - begin;
      const at::Tensor part = steps_of.narrow(0, begin, count);
      update(obs.index_select(0, rows_of.narrow(0, begin, count)), action.index_select(0, part),
             target.index_select(0, part), lr, sums);
    }
  }
  ++l.calls;
  epsilon_ = l.epsilon.at(steps);
  const double updates = static_cast<double>(config_.epochs * config_.minibatches);
  return {{"loss", sums.loss / updates},
          {"q_mean", sums.q / updates},
          {"td_error", sums.error / updates},
          {"target_mean", target.mean().item<double>()},
          {"grad_norm", sums.norm / updates},
          {"epsilon", epsilon_},
          {"lr", lr},
          {"policy_lag_mean", lag}};
}

Weights Pqn::get_weights() {
  Weights weights = model_->get_weights();
  append_epsilon(weights, epsilon_);
  return weights;
}

void Pqn::set_weights(const Weights& weights) {
  model_->set_weights(network_weights(weights));
  epsilon_ = epsilon_of(weights, epsilon_);
}

Weights Pqn::get_state() const {
  const Learner& l = learner();
  Weights state;
  l.optimizer.append_state(state);
  state.entries.push_back({"pqn/counters", Array::from<int64_t>({l.calls})});
  return state;
}

void Pqn::set_state(const Weights& state) {
  Learner& l = learner();
  l.optimizer.set_state(state);
  l.calls = get_entry(state, "pqn/counters").data<int64_t>()[0];
}

}  // namespace parl
