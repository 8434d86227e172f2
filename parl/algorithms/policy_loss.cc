#include "parl/algorithms/policy_loss.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parl/agent/categorical.h"
#include "parl/agent/gaussian.h"
#include "parl/core/check.h"

namespace parl {

LossSums& LossSums::operator+=(const LossSums& o) {
  steps += o.steps, policy += o.policy, value += o.value, entropy += o.entropy, kl += o.kl;
  ratio += o.ratio, rho_clipped += o.rho_clipped, c_clipped += o.c_clipped, ratio_clipped += o.ratio_clipped;
  ratio_max_deviation = std::max(ratio_max_deviation, o.ratio_max_deviation);
  vs += o.vs, vs_squared += o.vs_squared, error += o.error, error_squared += o.error_squared;
  advantage += o.advantage, advantage_squared += o.advantage_squared;
  return *this;
}

double LossSums::total(const PolicyLossOptions& options) const {
  return policy + options.value_cost * value - options.entropy_cost * entropy;
}

PolicyLoss::PolicyLoss(const PolicyLossOptions& options, const Batch& batch, const at::Tensor& logits,
                       const at::Tensor& value, const at::Tensor& final_value)
    : options_(options), unrolls_(batch.unrolls()), length_(batch.length()), bootstrap_(1), actions_(logits.size(1)) {
  options_.vtrace.weigh_advantage = options_.clip <= 0;
  PARL_CHECK_EQ(batch.behaviour_logits.size(2), actions_, "the behaviour policy had another number of actions");
  value_ = value.detach().cpu().contiguous();
  action_ = batch.action.cpu().contiguous();
  evaluate_policy(logits, batch.behaviour_logits);
  vs_.resize(static_cast<size_t>(batch.steps()));
  advantage_.resize(vs_.size());
  evaluate_targets(batch, final_value);
  add_target_sums();
}

PolicyLoss::PolicyLoss(const PolicyLossOptions& options, const Steps& steps, const at::Tensor& logits,
                       const at::Tensor& value)
    : options_(options), unrolls_(steps.action.size(0)), length_(1), bootstrap_(0), actions_(logits.size(1)) {
  value_ = value.detach().cpu().contiguous();
  action_ = steps.action;
  evaluate_policy(logits, steps.behaviour_logits);
  vs_.assign(steps.vs.const_data_ptr<float>(), steps.vs.const_data_ptr<float>() + unrolls_);
  advantage_.assign(steps.advantage.const_data_ptr<float>(), steps.advantage.const_data_ptr<float>() + unrolls_);
  add_target_sums();
}

void PolicyLoss::evaluate_policy(const at::Tensor& logits, const at::Tensor& behaviour_logits) {
  PARL_CHECK_EQ(logits.size(0), unrolls_ * rows());
  PARL_CHECK_EQ(value_.numel(), unrolls_ * rows());
  gaussian_ = action_.is_floating_point();
  PARL_CHECK(!gaussian_ || actions_ == 2 * action_.size(-1), "a policy over {} floats has {} parameters, not {}",
             action_.size(-1), 2 * action_.size(-1), actions_);
  heads_ = options_.choices.empty() ? std::vector{actions_} : options_.choices;
  const int64_t steps = unrolls_ * length_, numbers = static_cast<int64_t>(heads_.size());
  PARL_CHECK(gaussian_ || (std::accumulate(heads_.begin(), heads_.end(), int64_t{0}) == actions_ &&
                           action_.numel() == steps * numbers),
             "a policy over {} numbers with {} choices in all has {} logits, and {} actions for {} steps", numbers,
             std::accumulate(heads_.begin(), heads_.end(), int64_t{0}), actions_, action_.numel(), steps);
  policy_.resize(static_cast<size_t>(steps * actions_));
  old_.resize(static_cast<size_t>(actions_));
  for (auto* column : {&chosen_, &ratio_, &entropy_}) column->resize(static_cast<size_t>(steps));
  const at::Tensor now_logits = logits.detach().cpu().contiguous();
  for (int64_t b = 0; b < unrolls_; ++b) {
    for (int64_t t = 0; t < length_; ++t) {
      const float* from = now_logits.const_data_ptr<float>() + (b * rows() + t) * actions_;
      float* to = policy_.data() + (b * length_ + t) * actions_;
      if (gaussian_) {
        std::copy(from, from + actions_, to);
      } else {
        for (const int64_t n : heads_) {
          log_softmax(from, n, to);
          from += n, to += n;
        }
      }
    }
  }
  const at::Tensor behaviour = behaviour_logits.cpu().contiguous();
  sums_.steps = static_cast<double>(steps);
  for (int64_t i = 0; i < steps; ++i) {
    const float* old = behaviour.const_data_ptr<float>() + i * actions_;
    const StepPolicy step = gaussian_ ? gaussian_step(i, old) : categorical_step(i, old);
    const size_t at = static_cast<size_t>(i);
    chosen_[at] = step.chosen;
    ratio_[at] = std::exp(step.chosen - step.behaviour);
    entropy_[at] = step.entropy;
    sums_.entropy += step.entropy;
    sums_.kl += step.kl;
    sums_.ratio += ratio_[at];
    sums_.ratio_max_deviation = std::max(sums_.ratio_max_deviation, std::abs(ratio_[at] - 1.0));
    sums_.rho_clipped += options_.vtrace.rho_clip > 0 && ratio_[at] > options_.vtrace.rho_clip;
    sums_.c_clipped += options_.vtrace.c_clip > 0 && ratio_[at] > options_.vtrace.c_clip;
  }
}

PolicyLoss::StepPolicy PolicyLoss::categorical_step(int64_t i, const float* behaviour_logits) {
  const float* now = policy_.data() + i * actions_;
  float* old = old_.data();
  const int64_t* action = action_.const_data_ptr<int64_t>() + i * static_cast<int64_t>(heads_.size());
  StepPolicy out{0, 0, 0, 0};
  for (const int64_t n : heads_) {
    log_softmax(behaviour_logits, n, old);
    PARL_CHECK(*action >= 0 && *action < n, "action {} is outside 0..{}", *action, n - 1);
    out.chosen += now[*action];
    out.behaviour += old[*action];
    for (int64_t k = 0; k < n; ++k) {
      out.entropy -= std::exp(now[k]) * now[k];
      out.kl += std::exp(old[k]) * (old[k] - now[k]);
    }
    behaviour_logits += n, now += n, old += n, ++action;
  }
  return out;
}

PolicyLoss::StepPolicy PolicyLoss::gaussian_step(int64_t i, const float* behaviour) const {
  const int64_t n = actions_ / 2;
  const float* now = policy_.data() + i * actions_;
  const float* action = action_.const_data_ptr<float>() + i * n;
  return {gaussian_log_prob(now, action, n), gaussian_log_prob(behaviour, action, n), gaussian_entropy(now, n),
          gaussian_kl(behaviour, now, n)};
}

void PolicyLoss::categorical_gradient(int64_t i, float weight, float entropy_scale, float* out) const {
  const float* now = policy_.data() + i * actions_;
  const int64_t* action = action_.const_data_ptr<int64_t>() + i * static_cast<int64_t>(heads_.size());
  for (const int64_t n : heads_) {
    float entropy = entropy_[static_cast<size_t>(i)];  // of this number alone
    if (heads_.size() > 1) {
      entropy = 0;
      for (int64_t k = 0; k < n; ++k) entropy -= std::exp(now[k]) * now[k];
    }
    for (int64_t k = 0; k < n; ++k) out[k] = std::exp(now[k]) * (entropy_scale * (now[k] + entropy) - weight);
    out[*action] += weight;
    now += n, out += n, ++action;
  }
}

void PolicyLoss::gaussian_gradient(int64_t i, float weight, float entropy_scale, float* out) const {
  const int64_t n = actions_ / 2;
  const float* now = policy_.data() + i * actions_;
  const float* action = action_.const_data_ptr<float>() + i * n;
  for (int64_t k = 0; k < n; ++k) {
    const float precision = std::exp(-now[n + k]), z = (action[k] - now[k]) * precision;
    out[k] = weight * z * precision;
    out[n + k] = weight * (z * z - 1) - entropy_scale;
  }
}

void PolicyLoss::evaluate_targets(const Batch& batch, const at::Tensor& final_value) {
  const at::Tensor reward = batch.reward.cpu().contiguous(), terminated = batch.terminated.cpu().contiguous();
  const at::Tensor truncated = batch.truncated.cpu().contiguous();
  const at::Tensor finals = final_value.defined() ? final_value.detach().cpu().contiguous() : final_value;
  int64_t used = 0;
  for (int64_t b = 0; b < unrolls_; ++b) {
    const int64_t at = b * length_;
    const bool* term = terminated.const_data_ptr<bool>() + at;
    const bool* trunc = truncated.const_data_ptr<bool>() + at;
    int64_t count = 0;
    for (int64_t t = 0; t < length_; ++t) count += trunc[t] && !term[t];
    PARL_CHECK(used + count <= (finals.defined() ? finals.numel() : 0), "a truncated step has no final observation");
    const VtraceUnroll unroll{length_,
                              1,
                              ratio_.data() + at,
                              reward.const_data_ptr<float>() + at,
                              term,
                              trunc,
                              value_.const_data_ptr<float>() + b * rows(),
                              count ? finals.const_data_ptr<float>() + used : nullptr,
                              count,
                              vs_.data() + at,
                              advantage_.data() + at};
    if (options_.gae) {
      gae(options_.vtrace.gamma, options_.vtrace.lambda, unroll);
    } else {
      vtrace(options_.vtrace, unroll);
    }
    used += count;
  }
}

void PolicyLoss::add_target_sums() {
  for (int64_t b = 0; b < unrolls_; ++b) {
    for (int64_t t = 0; t < length_; ++t) {
      const size_t i = static_cast<size_t>(b * length_ + t);
      const double vs = vs_[i], advantage = advantage_[i];
      const double error = vs - value_.const_data_ptr<float>()[b * rows() + t];
      sums_.value += 0.5 * error * error;
      sums_.vs += vs, sums_.vs_squared += vs * vs, sums_.error += error, sums_.error_squared += error * error;
      sums_.advantage += advantage, sums_.advantage_squared += advantage * advantage;
    }
  }
}

void PolicyLoss::normalize_advantages(double mean, double factor) {
  for (float& advantage : advantage_) advantage = static_cast<float>((advantage - mean) * factor);
}

float PolicyLoss::policy_gradient(int64_t i) {
  const size_t at = static_cast<size_t>(i);
  const float advantage = advantage_[at];
  if (options_.clip <= 0) {
    sums_.policy -= static_cast<double>(chosen_[at]) * advantage;
    return -advantage;
  }
  const float clip = static_cast<float>(options_.clip);
  const float plain = ratio_[at] * advantage, clipped = std::clamp(ratio_[at], 1 - clip, 1 + clip) * advantage;
  sums_.policy -= std::min(plain, clipped);
  sums_.ratio_clipped += std::abs(ratio_[at] - 1) > clip;
  return clipped < plain ? 0 : -plain;
}

PolicyLoss::Gradients PolicyLoss::gradients(double scale) {
  Gradients out{torch::empty({unrolls_ * rows(), actions_}), torch::empty({unrolls_ * rows()})};
  float* d_logits = out.logits.mutable_data_ptr<float>();
  float* d_value = out.value.mutable_data_ptr<float>();
  const float entropy_scale = static_cast<float>(scale * options_.entropy_cost);
  const float value_scale = static_cast<float>(scale * options_.value_cost);
  for (int64_t b = 0; b < unrolls_; ++b) {
    for (int64_t t = 0; t < length_; ++t, ++d_value) {
      const int64_t i = b * length_ + t;
      const float weight = static_cast<float>(scale) * policy_gradient(i);
      if (gaussian_) {
        gaussian_gradient(i, weight, entropy_scale, d_logits);
      } else {
        categorical_gradient(i, weight, entropy_scale, d_logits);
      }
      d_logits += actions_;
      *d_value = value_scale * (value_.const_data_ptr<float>()[b * rows() + t] - vs_[static_cast<size_t>(i)]);
    }
    d_logits = std::fill_n(d_logits, bootstrap_ * actions_, 0.0f);
    d_value = std::fill_n(d_value, bootstrap_, 0.0f);
  }
  return out;
}

}  // namespace parl
