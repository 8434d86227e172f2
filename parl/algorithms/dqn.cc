#include "parl/algorithms/dqn.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "parl/agent/categorical.h"
#include "parl/agent/masked_model.h"
#include "parl/agent/nonfinite.h"
#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"

namespace parl {
namespace {

const std::string kEpsilon = std::string(kExploration) + "epsilon";

ReplayOptions replay_options(const DqnConfig& config) {
  return {config.replay_capacity, config.n_step,         config.gamma,
          config.prioritized,     config.priority_alpha, static_cast<uint64_t>(config.replay_seed)};
}

// What a mask leaves (agent/masked_model.h gives the others this logit), [N, A] bool.
at::Tensor legal(const at::Tensor& logits) { return logits.gt(kIllegalLogit / 2); }

// The mean of the legal actions' logits, [N, 1].
at::Tensor legal_mean(const at::Tensor& logits) {
  const at::Tensor is_legal = legal(logits);
  return logits.masked_fill(is_legal.logical_not(), 0).sum(1, true) / is_legal.sum(1, true).to(at::kFloat);
}

void check_finite(const at::Tensor& q) {
  if (!at::isfinite(q).all().item<bool>()) {
    throw NonFiniteError("q", "the Q-values contain NaN or inf; the weights have diverged");
  }
}

}  // namespace

void DqnConfig::check() const {
  PARL_CHECK(gamma >= 0 && gamma <= 1, "gamma is {}, expected 0..1", gamma);
  PARL_CHECK(lr >= 0 && eps > 0, "lr is {} and eps {}: lr must not be negative, eps must be positive", lr, eps);
  PARL_CHECK(max_grad_norm >= 0, "max-grad-norm is {}, expected 0 or more", max_grad_norm);
  PARL_CHECK(batch_size >= 1, "batch-size is {}, expected at least 1", batch_size);
  PARL_CHECK(train_ratio >= 0, "train-ratio is {}, expected 0 or more", train_ratio);
  PARL_CHECK(target_updates >= 1, "target-updates is {}, expected at least 1", target_updates);
  PARL_CHECK(eval_epsilon >= 0 && eval_epsilon <= 1, "eval-epsilon is {}, expected 0..1", eval_epsilon);
  PARL_CHECK(learn_start >= 0, "learn-start is {}, expected 0 or more", learn_start);
  PARL_CHECK(n_step >= 1, "n-step is {}, expected at least 1", n_step);
  PARL_CHECK(priority_alpha >= 0 && priority_alpha <= 1, "priority-alpha is {}, expected 0..1", priority_alpha);
  PARL_CHECK(replay_capacity >= batch_size, "replay-capacity is {}, expected at least batch-size, {}", replay_capacity,
             batch_size);
  if (!lr_schedule.empty()) Schedule{lr_schedule};
  Schedule{exploration};
  Schedule{priority_beta};
}

struct Dqn::Learner {
  Learner(Model& model, const DqnConfig& config)
      : parameters(model),
        optimizer(parameters, {"adam", config.eps, 0, 0.9, 0.999}),
        replay(replay_options(config)),
        lr(config.lr_schedule.empty() ? Schedule(config.lr) : Schedule(config.lr_schedule)),
        epsilon(config.exploration),
        beta(config.priority_beta) {}

  FlatParameters parameters;
  FlatOptimizer optimizer;
  ReplayBuffer replay;
  Schedule lr, epsilon, beta;
  int64_t calls = 0, updates = 0;
  double owed = 0;                                          // samples to learn for the steps collected so far
  double loss = 0, q = 0, error = 0, target = 0, norm = 0;  // sums over the updates of one learn()
};

Dqn::Dqn(std::shared_ptr<Model> model, DqnConfig config, std::shared_ptr<Model> target, const std::string& device)
    : model_(std::move(model)),
      target_(std::move(target)),
      config_(std::move(config)),
      device_(device),
      epsilon_(Schedule(config_.exploration).at(0)) {
  PARL_CHECK(model_ != nullptr, "an algorithm needs a model");
  PARL_CHECK(model_->action_choices().empty(), "dqn chooses one action of a set; this model's actions are {} numbers",
             model_->action_choices().size());
  masked_ = dynamic_cast<const MaskedModel*>(model_.get()) != nullptr;
  config_.check();
  for (const auto& network : {model_, target_}) {
    if (!network) continue;
    network->to(at::Device(device_));
    network->eval();
  }
  if (target_) model_->sync_weights_to(*target_);
}

Dqn::~Dqn() = default;

Dqn::Learner& Dqn::learner() const {
  PARL_CHECK(target_ != nullptr, "this Dqn was made without a target network: it acts, it cannot learn");
  if (!learner_) learner_ = std::make_unique<Learner>(*model_, config_);
  return *learner_;
}

at::Tensor Dqn::q_values(const PolicyValue& output) const {
  if (!config_.dueling) return output.logits;
  const at::Tensor mean = masked_ ? legal_mean(output.logits) : output.logits.mean(1, true);
  const at::Tensor q = output.logits - mean + output.value.unsqueeze(1);
  return masked_ ? at::where(legal(output.logits), q, output.logits) : q;
}

ActOutput Dqn::act(const at::Tensor& obs) const {
  torch::NoGradGuard no_grad;
  const PolicyValue out = model_->forward(obs.to(at::Device(device_)));
  const at::Tensor q = q_values(out).to(at::kCPU).contiguous();
  check_finite(q);
  return {q.argmax(1), q, std::get<0>(q.max(1))};
}

ActOutput Dqn::predict(const at::Tensor& obs) { return act(obs); }

ActOutput Dqn::sample(const at::Tensor& obs, const at::Tensor& uniforms) {
  ActOutput out = act(obs);
  const int64_t actions = out.logits.size(1);
  int64_t* action = out.action.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < out.action.numel(); ++i) {
    const double u = uniforms.const_data_ptr<float>()[i];
    if (u >= epsilon()) continue;
    const float* q = out.logits.const_data_ptr<float>() + i * actions;
    const auto is_legal = [](float value) { return value > kIllegalLogit / 2; };
    const int64_t count = std::count_if(q, q + actions, is_legal);
    int64_t chosen = std::min(count - 1, static_cast<int64_t>(u / epsilon() * static_cast<double>(count)));
    for (action[i] = 0; !is_legal(q[action[i]]) || chosen-- > 0;) ++action[i];
  }
  return out;
}

at::Tensor Dqn::targets(const ReplaySample& sample) const {
  torch::NoGradGuard no_grad;
  const at::Tensor next = sample.next_obs.to(at::Device(device_));
  const at::Tensor valued = q_values(target_->forward(next));
  const at::Tensor chosen = (config_.double_q ? q_values(model_->forward(next)) : valued).argmax(1, true);
  return sample.reward + sample.discount * valued.gather(1, chosen).squeeze(1).cpu();
}

void Dqn::update(double lr, double beta) {
  Learner& l = *learner_;
  const ReplaySample sample = l.replay.sample(config_.batch_size, beta);
  const at::Tensor y = targets(sample);
  l.parameters.zero_gradients();
  const std::unique_ptr<Recording> recording = model_->record(sample.obs.to(at::Device(device_)));
  at::Tensor d_logits, d_value, error;
  {
    torch::NoGradGuard no_grad;
    const at::Tensor all = q_values(recording->output()).cpu(), action = sample.action.unsqueeze(1);
    const at::Tensor q = all.gather(1, action).squeeze(1);
    error = q - y;
    const at::Tensor size = error.abs(), n = torch::tensor(static_cast<double>(config_.batch_size));
    const at::Tensor huber = at::where(size.le(1), 0.5 * error * error, size - 0.5);
    const at::Tensor d_q = sample.weight * error.clamp(-1, 1) / n;
    d_logits = torch::zeros_like(all).scatter(1, action, d_q.unsqueeze(1));
    if (config_.dueling && masked_) {
      const at::Tensor is_legal = legal(all);
      d_logits = d_logits - is_legal * (d_q / is_legal.sum(1)).unsqueeze(1);
    } else if (config_.dueling) {
      d_logits = d_logits - (d_q / static_cast<double>(all.size(1))).unsqueeze(1);
    }
    d_value = config_.dueling ? d_q : torch::zeros_like(d_q);
    const double loss = (sample.weight * huber).mean().item<double>();
    if (!std::isfinite(loss))
      throw NonFiniteError("loss",
                           "NaN or inf in the loss; the weights were not changed by it. Lower the learning rate, or "
                           "look at the rewards");
    l.loss += loss;
    l.q += q.mean().item<double>();
    l.target += y.mean().item<double>();
    l.error += size.mean().item<double>();
  }
  recording->backward(d_logits.to(at::Device(device_)), d_value.to(at::Device(device_)));
  const double norm = l.parameters.gradient_norm();
  if (!std::isfinite(norm)) {
    const std::string name = l.parameters.find_nonfinite(true);
    throw NonFiniteError("gradient of " + name, fmt::format("NaN or inf in the gradient of '{}'; the weights were not "
                                                            "changed by it. Lower the learning rate or max-grad-norm",
                                                            name));
  }
  l.optimizer.step(lr, config_.max_grad_norm > 0 ? std::min(1.0, config_.max_grad_norm / (norm + 1e-6)) : 1.0);
  l.replay.update_priorities(sample.index, error);
  l.norm += norm;
  if (++l.updates % config_.target_updates == 0) model_->sync_weights_to(*target_);
}

LearnStats Dqn::learn(const Batch& batch, int64_t agent_steps) {
  batch.check();
  Learner& l = learner();
  // What is not finite would stay in the buffer and come up later, far from its cause.
  for (const auto& [name, tensor] : {std::pair{"reward", batch.reward}, std::pair{"obs", batch.obs}}) {
    if (tensor.is_floating_point() && !at::isfinite(tensor).all().item<bool>()) {
      throw NonFiniteError(name, fmt::format("NaN or inf in '{}' of a rollout; nothing was learnt from it", name),
                           batch, model_->get_weights());
    }
  }
  l.replay.add(batch);
  const double steps = static_cast<double>(agent_steps + batch.steps());
  const double lr = l.lr.at(steps), beta = l.beta.at(steps);
  epsilon_ = l.epsilon.at(steps);
  const double lag =
      batch.version.defined() ? static_cast<double>(l.calls) - batch.version.to(at::kDouble).mean().item<double>() : 0;
  l.loss = l.q = l.error = l.target = l.norm = 0;
  const int64_t before = l.updates;
  if (agent_steps + batch.steps() >= config_.learn_start && l.replay.size() >= config_.batch_size) {
    l.owed += config_.train_ratio * static_cast<double>(batch.steps());
    for (; l.owed >= static_cast<double>(config_.batch_size); l.owed -= static_cast<double>(config_.batch_size)) {
      update(lr, beta);
    }
  }
  ++l.calls;
  const double updates = static_cast<double>(l.updates - before);
  LearnStats stats;
  if (updates > 0) {
    stats = {{"loss", l.loss / updates},
             {"q_mean", l.q / updates},
             {"td_error", l.error / updates},
             {"target_mean", l.target / updates},
             {"grad_norm", l.norm / updates}};
  }
  stats.insert(stats.end(), {{"updates", updates},
                             {"replay_size", static_cast<double>(l.replay.size())},
                             {"epsilon", epsilon_},
                             {"lr", lr},
                             {"policy_lag_mean", lag}});
  return stats;
}

Weights Dqn::get_weights() {
  Weights weights = model_->get_weights();
  weights.entries.push_back({kEpsilon, Array::from<float>({static_cast<float>(epsilon_)})});
  return weights;
}

void Dqn::set_weights(const Weights& weights) {
  model_->set_weights(network_weights(weights));
  if (target_) model_->sync_weights_to(*target_);
  const Array* epsilon = find_entry(weights, kEpsilon);
  if (epsilon) epsilon_ = epsilon->data<float>()[0];
}

Weights Dqn::get_state() const {
  const Learner& l = learner();
  Weights state;
  l.optimizer.append_state(state);
  for (NamedArray& entry : target_->get_weights().entries) {
    state.entries.push_back({"target/" + entry.name, std::move(entry.array)});
  }
  l.replay.append_state(state);
  state.entries.push_back({"dqn/counters", Array::from<int64_t>({l.calls, l.updates})});
  state.entries.push_back({"dqn/owed", Array::from<double>({l.owed})});
  return state;
}

void Dqn::set_state(const Weights& state) {
  Learner& l = learner();
  const auto counters = get_entry(state, "dqn/counters").data<int64_t>();
  l.optimizer.set_state(state);
  Weights target;
  for (const NamedArray& entry : state.entries) {
    if (entry.name.starts_with("target/")) target.entries.push_back({entry.name.substr(7), entry.array});
  }
  target_->set_weights(target);
  l.replay.set_state(state);
  l.calls = counters[0], l.updates = counters[1];
  l.owed = get_entry(state, "dqn/owed").data<double>()[0];
}

}  // namespace parl
