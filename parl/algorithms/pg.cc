#include "parl/algorithms/pg.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "parl/agent/nonfinite.h"
#include "parl/agent/optimizer.h"
#include "parl/agent/policy_act.h"
#include "parl/agent/schedule.h"
#include "parl/core/check.h"

namespace parl {

void PgConfig::check() const {
  PARL_CHECK(gamma >= 0 && gamma <= 1, "gamma is {}, expected 0..1", gamma);
  PARL_CHECK(lr >= 0 && eps > 0, "lr is {} and eps {}: lr must not be negative, eps must be positive", lr, eps);
  for (const auto& [name, value] : {std::pair{"value-cost", value_cost}, std::pair{"entropy-cost", entropy_cost},
                                    std::pair{"max-grad-norm", max_grad_norm}}) {
    PARL_CHECK(value >= 0, "{} is {}, expected 0 or more", name, value);
  }
  if (!lr_schedule.empty()) Schedule{lr_schedule};
}

ReturnsToGo returns_to_go(const Batch& batch, double gamma, const at::Tensor& value, const at::Tensor& final_value) {
  const int64_t B = batch.unrolls(), T = batch.length();
  const at::Tensor reward = batch.reward.cpu().contiguous(), terminated = batch.terminated.cpu().contiguous(),
                   truncated = batch.truncated.cpu().contiguous();
  const bool bootstraps = value.defined();
  at::Tensor last, finals;
  if (bootstraps) {
    last = value.cpu().select(1, T).contiguous();
    if (final_value.defined()) finals = final_value.cpu().contiguous();
  }
  ReturnsToGo out{torch::empty({B, T}), torch::empty({B, T}, at::kBool)};
  float* g = out.returns.mutable_data_ptr<float>();
  bool* known = out.known.mutable_data_ptr<bool>();
  int64_t f = bootstraps && finals.defined() ? finals.numel() : 0;  // the final values that are still to come
  for (int64_t b = B - 1; b >= 0; --b) {
    double sum = bootstraps ? last.const_data_ptr<float>()[b] : 0;
    bool is_known = bootstraps;
    for (int64_t t = T - 1; t >= 0; --t) {
      const int64_t i = b * T + t;
      const bool ends = terminated.const_data_ptr<bool>()[i], cut = truncated.const_data_ptr<bool>()[i];
      if (ends || cut) is_known = true, sum = 0;
      if (cut && !ends && bootstraps) {
        PARL_CHECK_GT(f, 0, "every truncated step needs the value of its final observation");
        sum = finals.const_data_ptr<float>()[--f];
      }
      sum = reward.const_data_ptr<float>()[i] + gamma * sum;
      g[i] = static_cast<float>(sum);
      known[i] = is_known;
    }
  }
  return out;
}

struct Pg::Learner {
  Learner(Model& model, const PgConfig& config)
      : parameters(model),
        optimizer(parameters, {"adam", config.eps, 0, 0.9, 0.999}),
        lr(config.lr_schedule.empty() ? Schedule(config.lr) : Schedule(config.lr_schedule)) {}
  FlatParameters parameters;
  FlatOptimizer optimizer;
  Schedule lr;
};

Pg::Pg(std::shared_ptr<Model> model, PgConfig config, const std::string& device)
    : model_(std::move(model)), config_(std::move(config)), device_(device) {
  PARL_CHECK(model_ != nullptr, "an algorithm needs a model");
  config_.check();
  model_->to(at::Device(device_));
  model_->eval();
}

Pg::~Pg() = default;

Pg::Learner& Pg::learner() const {
  if (!learner_) learner_ = std::make_unique<Learner>(*model_, config_);
  return *learner_;
}

ActOutput Pg::sample(const at::Tensor& obs, const at::Tensor& uniforms) {
  return policy_act(*model_, {obs, uniforms}, at::Device(device_));
}

ActOutput Pg::predict(const at::Tensor& obs) { return policy_act(*model_, {obs}, at::Device(device_)); }

namespace {

// Rows of obs that go through the network at a time.
int64_t piece_rows(const Model& model, int64_t rows) {
  return model.preferred_rows() > 0 ? model.preferred_rows() : std::max<int64_t>(rows, 1);
}

void normalize(at::Tensor& advantage) {
  const at::Tensor wide = advantage.to(at::kDouble);
  const double mean = wide.mean().item<double>(), deviation = std::sqrt((wide - mean).pow(2).mean().item<double>());
  advantage = ((wide - mean) / (deviation + 1e-8)).to(at::kFloat);
}

void check_inputs(const Batch& batch, const Model& model) {
  for (const auto& [name, tensor] : {std::pair{"reward", batch.reward}, std::pair{"obs", batch.obs}}) {
    if (tensor.is_floating_point() && !at::isfinite(tensor).all().item<bool>()) {
      throw NonFiniteError(name, fmt::format("NaN or inf in '{}' of a rollout; nothing was learnt from it", name),
                           batch, model.get_weights());
    }
  }
}

}  // namespace

at::Tensor Pg::values(const at::Tensor& obs) const {
  torch::NoGradGuard no_grad;
  std::vector<at::Tensor> out;
  for (const at::Tensor& piece : obs.split(piece_rows(*model_, obs.size(0)))) {
    out.push_back(model_->forward(piece.to(at::Device(device_))).value.cpu());
  }
  return torch::cat(out);
}

Pg::Targets Pg::targets(const Batch& batch) const {
  const bool learns_value = config_.baseline == Baseline::kValue;
  at::Tensor value, final_value;
  if (learns_value) {
    value = values(batch.obs.flatten(0, 1)).view({batch.unrolls(), batch.length() + 1});
    if (batch.final_index.defined() && batch.final_index.numel() > 0) final_value = values(batch.final_obs);
  }
  const ReturnsToGo to_go = returns_to_go(batch, config_.gamma, value, final_value);
  Targets out;
  out.steps = to_go.known.flatten().nonzero().squeeze(1);
  out.returns = out.advantage = to_go.returns.flatten().index_select(0, out.steps);
  if (out.steps.numel() == 0) return out;
  if (learns_value) {
    out.advantage = out.returns - value.narrow(1, 0, batch.length()).flatten().index_select(0, out.steps);
    if (config_.normalize_advantage) normalize(out.advantage);
  } else if (config_.baseline == Baseline::kMean) {
    normalize(out.advantage);
  }
  return out;
}

// Leaves the gradient of the loss, which is scale * the sums.
LossSums Pg::find_gradient(const Batch& batch, const Targets& targets, const PolicyLossOptions& options, double scale) {
  const auto pick = [](const at::Tensor& column, const at::Tensor& index) {
    return column.flatten(0, 1).index_select(0, index.to(column.device()));
  };
  LossSums sums;
  learner().parameters.zero_gradients();
  const int64_t n = targets.steps.numel(), rows = piece_rows(*model_, n);
  for (int64_t at = 0; at < n; at += rows) {
    const int64_t count = std::min(rows, n - at);
    const at::Tensor part = targets.steps.narrow(0, at, count);
    const at::Tensor obs_rows = part + part.div(batch.length(), "floor");  // of obs [B * (T+1)]
    const auto recording = model_->record(pick(batch.obs, obs_rows).to(at::Device(device_)));
    PolicyLoss loss(options,
                    PolicyLoss::Steps{pick(batch.action, part).cpu(), pick(batch.behaviour_logits, part).cpu(),
                                      targets.returns.narrow(0, at, count).contiguous(),
                                      targets.advantage.narrow(0, at, count).contiguous()},
                    recording->output().logits, recording->output().value);
    const PolicyLoss::Gradients gradients = loss.gradients(scale);
    recording->backward(gradients.logits.to(at::Device(device_)), gradients.value.to(at::Device(device_)));
    sums += loss.sums();
  }
  return sums;
}

LearnStats Pg::learn(const Batch& batch, int64_t agent_steps) {
  batch.check();
  check_inputs(batch, *model_);
  Learner& l = learner();
  const double lr = l.lr.at(static_cast<double>(agent_steps));
  const Targets targets = this->targets(batch);
  const auto n = static_cast<double>(targets.steps.numel());
  const double share = n / static_cast<double>(batch.steps());
  if (n == 0) return {{"share_learnt", share}, {"grad_norm", 0.0}, {"updates", 0.0}, {"lr", lr}};

  PolicyLossOptions options;
  options.value_cost = config_.baseline == Baseline::kValue ? config_.value_cost : 0;
  options.entropy_cost = config_.entropy_cost;
  const LossSums sums = find_gradient(batch, targets, options, 1 / n);
  const double loss = sums.total(options) / n, norm = l.parameters.gradient_norm();
  if (!std::isfinite(loss) || !std::isfinite(norm)) {
    const std::string name = std::isfinite(loss) ? "gradient of " + l.parameters.find_nonfinite(true) : "loss";
    throw NonFiniteError(name,
                         fmt::format("NaN or inf in the {}; the weights were not changed by it. Lower the learning "
                                     "rate, or look at the rewards",
                                     name),
                         batch, model_->get_weights());
  }
  l.optimizer.step(lr, config_.max_grad_norm > 0 ? std::min(1.0, config_.max_grad_norm / (norm + 1e-6)) : 1.0);
  return {{"loss", loss},
          {"policy_loss", sums.policy / n},
          {"value_loss", sums.value / n},
          {"entropy", sums.entropy / n},
          {"return_to_go", targets.returns.to(at::kDouble).mean().item<double>()},
          {"share_learnt", share},
          {"grad_norm", norm},
          {"updates", 1.0},
          {"lr", lr}};
}

Weights Pg::get_state() const {
  Weights state;
  learner().optimizer.append_state(state);
  return state;
}

void Pg::set_state(const Weights& state) { learner().optimizer.set_state(state); }

}  // namespace parl
