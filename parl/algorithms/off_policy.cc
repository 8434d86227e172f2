#include "parl/algorithms/off_policy.h"

#include <torch/torch.h>

#include <cmath>
#include <deque>
#include <optional>

#include "parl/agent/module_weights.h"
#include "parl/agent/nonfinite.h"
#include "parl/agent/optimizer.h"
#include "parl/agent/tanh_gaussian.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/finite_batch.h"
#include "parl/algorithms/sample_ahead.h"
#include "parl/core/check.h"

namespace parl {
namespace {

const std::string kRandom = std::string(kExploration) + "random", kHeld = std::string(kExploration) + "held";
const OptimizerConfig kAdam{"adam", 1e-8, 0, 0.9, 0.999};

// A network that is learnt.
struct Learnt {
  explicit Learnt(torch::nn::Module& module) : parameters(module), optimizer(parameters, kAdam) {}
  FlatParameters parameters;
  FlatOptimizer optimizer;
};

void append_under(Weights& state, const std::string& prefix, Weights part) {
  for (NamedArray& entry : part.entries) state.entries.push_back({prefix + entry.name, std::move(entry.array)});
}

Weights part_under(const Weights& state, const std::string& prefix) {
  Weights part;
  for (const NamedArray& entry : state.entries) {
    if (entry.name.starts_with(prefix)) part.entries.push_back({entry.name.substr(prefix.size()), entry.array});
  }
  return part;
}

Weights optimizer_state(const FlatOptimizer& optimizer) {
  Weights state;
  optimizer.append_state(state);
  return state;
}

double checked_norm(Learnt& learnt, const std::string& network) {
  const double norm = learnt.parameters.gradient_norm();
  if (std::isfinite(norm)) return norm;
  const std::string weight = learnt.parameters.find_nonfinite(true);  // empty: only the norm is not finite
  const std::string name = weight.empty() ? network : network + "'s " + weight;
  throw NonFiniteError("gradient of " + name, fmt::format("NaN or inf in the gradient of the {}; the weights were not "
                                                          "changed by it. Lower the learning rate, or look at the "
                                                          "rewards",
                                                          name));
}

void check_loss(double loss, const char* what) {
  if (std::isfinite(loss)) return;
  throw NonFiniteError(what, fmt::format("NaN or inf in the loss of the {}; the weights were not changed by it. Lower "
                                         "the learning rate, or look at the rewards",
                                         what));
}

}  // namespace

void OffPolicyConfig::check() const {
  PARL_CHECK(gamma >= 0 && gamma <= 1, "gamma is {}, expected 0..1", gamma);
  PARL_CHECK(lr >= 0 && critic_lr >= 0, "lr is {} and critic-lr {}: neither may be negative", lr, critic_lr);
  PARL_CHECK(batch_size >= 1, "batch-size is {}, expected at least 1", batch_size);
  PARL_CHECK(train_ratio >= 0 && std::isfinite(train_ratio), "train-ratio is {}, expected 0 or more, and finite",
             train_ratio);
  PARL_CHECK(tau > 0 && tau <= 1, "tau is {}, expected above 0, at most 1", tau);
  PARL_CHECK(n_step >= 1, "n-step is {}, expected at least 1", n_step);
  PARL_CHECK(learn_start >= 0, "learn-start is {}, expected 0 or more", learn_start);
  PARL_CHECK(replay_capacity >= batch_size, "replay-capacity is {}, expected at least batch-size, {}", replay_capacity,
             batch_size);
}

struct OffPolicy::Learner {
  Learner(Model& policy_network, const OffPolicyNetworks& networks, const OffPolicyConfig& config, int64_t draws)
      : policy(policy_network),
        replay(
            {config.replay_capacity, config.n_step, config.gamma, false, 0, static_cast<uint64_t>(config.replay_seed)}),
        ahead(replay, config.batch_size, draws, static_cast<uint64_t>(config.replay_seed)) {
    for (const auto& critic : networks.critics) critics.emplace_back(*critic);
    for (const auto& critic : networks.target_critics) target_critics.emplace_back(*critic);
    if (networks.target_policy) target_policy.emplace(*networks.target_policy);
  }

  Learnt policy;
  std::deque<Learnt> critics;
  std::deque<FlatParameters> target_critics;
  std::optional<FlatParameters> target_policy;
  ReplayBuffer replay;
  int64_t refill = 0;  // steps to collect before learning goes on without the buffer that there was
  SampleAhead ahead;
  int64_t calls = 0, updates = 0;
  double owed = 0;  // samples to learn for the steps collected so far
};

OffPolicy::OffPolicy(std::shared_ptr<Model> policy, OffPolicyNetworks networks, const OffPolicyConfig& config,
                     const std::string& device)
    : policy_(std::move(policy)),
      networks_(std::move(networks)),
      config_(config),
      device_(device),
      random_(config.learn_start > 0) {
  PARL_CHECK(policy_ != nullptr, "an algorithm needs a model");
  config_.check();
  PARL_CHECK(policy_->is_gaussian(),
             "continuous control needs a network with a Gaussian policy (Model::is_gaussian), such as mlp256");
  PARL_CHECK_EQ(networks_.critics.size(), networks_.target_critics.size(), "every critic needs a target network");
  policy_->to(at::Device(device_));
  policy_->eval();
  for (size_t i = 0; i < networks_.critics.size(); ++i) {
    for (const auto& critic : {networks_.critics[i], networks_.target_critics[i]}) {
      critic->to(at::Device(device_));
      critic->eval();
    }
    sync_modules(*networks_.critics[i], *networks_.target_critics[i]);
  }
  if (!networks_.target_policy) return;
  networks_.target_policy->to(at::Device(device_));
  networks_.target_policy->eval();
  policy_->sync_weights_to(*networks_.target_policy);
}

OffPolicy::~OffPolicy() = default;

OffPolicy::Learner& OffPolicy::learner() const {
  PARL_CHECK(!networks_.critics.empty(), "this object was made without critics: it acts, it cannot learn");
  if (!learner_) learner_ = std::make_unique<Learner>(*policy_, networks_, config_, noise_draws());
  return *learner_;
}

PolicyValue OffPolicy::network_output(const at::Tensor& obs) const {
  const PolicyValue out = policy_->forward(obs.to(at::Device(device_)));
  return {out.logits.to(at::kCPU).contiguous(), out.value.to(at::kCPU).contiguous()};
}

ActOutput OffPolicy::predict(const at::Tensor& obs) {
  torch::NoGradGuard no_grad;
  const PolicyValue out = network_output(obs);
  return {tanh_mean(out.logits), out.logits, out.value};
}

ActOutput OffPolicy::sample(const at::Tensor& obs, const at::Tensor& uniforms) {
  torch::NoGradGuard no_grad;
  const PolicyValue out = network_output(obs);
  if (!acts_randomly()) return {explore(out.logits, uniforms), out.logits, out.value};
  return {held_.defined() ? held_.expand_as(uniforms).contiguous() : uniforms * 2 - 1, out.logits, out.value};
}

at::Tensor OffPolicy::target_q(const at::Tensor& obs, const at::Tensor& action) const {
  at::Tensor lowest;
  for (const auto& critic : networks_.target_critics) {
    const at::Tensor q = critic->forward(obs, action);
    lowest = lowest.defined() ? at::minimum(lowest, q) : q;
  }
  return lowest;
}

void OffPolicy::update_critics(const ReplaySample& sample, const at::Tensor& y, LearnStats& stats) {
  Learner& l = *learner_;
  double loss = 0, q_mean = 0, squares = 0;
  for (size_t i = 0; i < l.critics.size(); ++i) {
    l.critics[i].parameters.zero_gradients();
    const std::unique_ptr<QRecording> recording = networks_.critics[i]->record(sample.obs, sample.action);
    const at::Tensor q = recording->output().detach(), error = q - y;
    const double mean_square = error.dot(error).item<double>() / static_cast<double>(error.numel());
    check_loss(mean_square, "critic");
    loss += mean_square;
    q_mean += q.mean().item<double>() / static_cast<double>(l.critics.size());
    recording->backward(error * (2.0 / static_cast<double>(error.numel())));
    const double norm = checked_norm(l.critics[i], "critic");
    squares += norm * norm;
  }
  for (Learnt& critic : l.critics) critic.optimizer.step(config_.critic_lr > 0 ? config_.critic_lr : config_.lr);
  stats.insert(stats.end(), {{"loss", loss},
                             {"q_mean", q_mean},
                             {"target_mean", y.mean().item<double>()},
                             {"grad_norm", std::sqrt(squares)}});
}

void OffPolicy::step_policy(Recording& recording, const at::Tensor& d_parameters, double loss) {
  Learner& l = *learner_;
  check_loss(loss, "policy");
  l.policy.parameters.zero_gradients();
  recording.backward(d_parameters,
                     torch::zeros_like(recording.output().value, at::TensorOptions().requires_grad(false)));
  checked_norm(l.policy, "policy");
  l.policy.optimizer.step(config_.lr);
}

void OffPolicy::move_targets() {
  Learner& l = *learner_;
  const auto move = [this](FlatParameters& target, FlatParameters& original) {
    target.values().lerp_(original.values(), config_.tau);
    target.bump_versions();
  };
  for (size_t i = 0; i < l.critics.size(); ++i) move(l.target_critics[i], l.critics[i].parameters);
  if (l.target_policy) move(*l.target_policy, l.policy.parameters);
}

LearnStats OffPolicy::update(const ReplaySample& given, const at::Tensor& given_noise) {
  torch::NoGradGuard no_grad;
  Learner& l = learner();
  const at::Device device(device_);
  ReplaySample sample = given;
  for (at::Tensor* tensor : {&sample.obs, &sample.next_obs, &sample.action, &sample.reward, &sample.discount}) {
    *tensor = tensor->to(device);
  }
  const at::Tensor noise = given_noise.defined() ? given_noise.to(device) : given_noise;
  LearnStats stats;
  const at::Tensor y = at::addcmul(sample.reward, sample.discount, next_value(sample.next_obs, noise));
  update_critics(sample, y, stats);
  if (++l.updates % policy_delay() == 0) {
    update_policy(sample.obs, noise, stats);
    move_targets();
  }
  return stats;
}

// Means of named numbers that are not there every time.
struct OffPolicy::Means {
  LearnStats sums;
  std::vector<double> counts;
  void add(const LearnStats& stats) {
    for (const auto& [name, value] : stats) {
      size_t i = 0;
      while (i < sums.size() && sums[i].first != name) ++i;
      if (i == sums.size()) sums.emplace_back(name, 0), counts.push_back(0);
      sums[i].second += value;
      ++counts[i];
    }
  }
  LearnStats take() {
    for (size_t i = 0; i < sums.size(); ++i) sums[i].second /= counts[i];
    return std::move(sums);
  }
};

// Makes the updates that are owed, as long as nobody interrupts; how many it were.
int64_t OffPolicy::pay(Means& means) {
  constexpr int64_t kAtOnce = 64;
  Learner& l = *learner_;
  const auto batch = static_cast<double>(config_.batch_size);
  int64_t made = 0;
  while (l.owed >= batch && !interrupted()) {
    const int64_t some = std::min(kAtOnce, static_cast<int64_t>(l.owed / batch));
    l.ahead.start(some);
    try {
      for (int64_t i = 0; i < some; ++i) {
        const DrawnSample& drawn = l.ahead.next();
        means.add(update(drawn.transitions, drawn.noise));
      }
    } catch (...) {
      l.ahead.cancel();
      throw;
    }
    l.owed -= static_cast<double>(some) * batch;
    made += some;
  }
  return made;
}

LearnStats OffPolicy::learn(const Batch& batch, int64_t agent_steps) {
  batch.check();
  Learner& l = learner();
  check_finite(batch, *policy_);
  Means means;
  int64_t updates = pay(means);  // what a stop left over, from what there was then
  l.replay.add(batch);
  const bool started = agent_steps + batch.steps() >= config_.learn_start;
  random_ = !started;
  if (config_.hold_random) draw_held(batch.action.size(2));
  const double lag =
      batch.version.defined() ? static_cast<double>(l.calls) - batch.version.to(at::kDouble).mean().item<double>() : 0;
  if (started && l.replay.size() >= std::max(config_.batch_size, l.refill)) {
    l.refill = 0;
    l.owed += config_.train_ratio * static_cast<double>(batch.steps());
    updates += pay(means);
  }
  ++l.calls;
  LearnStats stats = means.take();
  stats.insert(stats.end(), {{"updates", static_cast<double>(updates)},
                             {"replay_size", static_cast<double>(l.replay.size())},
                             {"policy_lag_mean", lag}});
  return stats;
}

ReplayBuffer& OffPolicy::replay() { return learner().replay; }

void OffPolicy::replay_lost() { learner().refill = std::min(config_.learn_start, config_.replay_capacity / 2); }
// From a place of its own for every version.
void OffPolicy::draw_held(int64_t size) {
  CounterRng rng(static_cast<uint64_t>(config_.replay_seed), 0x4e1d);
  rng.set_position(static_cast<uint64_t>(learner_->calls * size));
  held_ = torch::empty({size});
  for (int64_t i = 0; i < size; ++i) held_.mutable_data_ptr<float>()[i] = rng.uniform() * 2 - 1;
}

Weights OffPolicy::get_weights() {
  Weights weights = policy_->get_weights();
  weights.entries.push_back({kRandom, Array::from<float>({random_ ? 1.0f : 0.0f})});
  if (random_ && held_.defined()) weights.entries.push_back({kHeld, to_array(held_)});
  return weights;
}

void OffPolicy::set_weights(const Weights& weights) {
  policy_->set_weights(network_weights(weights));
  if (networks_.target_policy) policy_->sync_weights_to(*networks_.target_policy);
  const Array* random = find_entry(weights, kRandom);
  if (random) random_ = random->data<float>()[0] > 0;
  const Array* held = find_entry(weights, kHeld);
  if (held) held_ = to_tensor(*held);
}

Weights OffPolicy::get_state() const {
  const Learner& l = learner();
  Weights state;
  append_under(state, "policy/", optimizer_state(l.policy.optimizer));
  for (size_t i = 0; i < networks_.critics.size(); ++i) {
    const std::string name = "critic" + std::to_string(i) + "/";
    append_under(state, name, module_weights(*networks_.critics[i]));
    append_under(state, name, optimizer_state(l.critics[i].optimizer));
    append_under(state, "target_" + name, module_weights(*networks_.target_critics[i]));
  }
  if (networks_.target_policy) append_under(state, "target_policy/", networks_.target_policy->get_weights());
  state.entries.push_back(
      {"off_policy/counters",
       Array::from<int64_t>({l.calls, l.updates, static_cast<int64_t>(l.ahead.noise_position()), l.refill})});
  state.entries.push_back({"off_policy/owed", Array::from<double>({l.owed})});
  append_own_state(state);
  return state;
}

void OffPolicy::set_state(const Weights& state) {
  Learner& l = learner();
  const auto counters = get_entry(state, "off_policy/counters").data<int64_t>();
  l.policy.optimizer.set_state(part_under(state, "policy/"));
  for (size_t i = 0; i < networks_.critics.size(); ++i) {
    const std::string name = "critic" + std::to_string(i) + "/";
    Weights critic = part_under(state, name);
    l.critics[i].optimizer.set_state(critic);
    std::erase_if(critic.entries, [](const NamedArray& entry) { return entry.name.starts_with("optimizer/"); });
    set_module_weights(*networks_.critics[i], critic);
    set_module_weights(*networks_.target_critics[i], part_under(state, "target_" + name));
  }
  if (networks_.target_policy) networks_.target_policy->set_weights(part_under(state, "target_policy/"));
  if (find_entry(state, "replay/counters")) l.replay.set_state(state);  // as earlier versions saved it
  l.calls = counters[0], l.updates = counters[1];
  l.ahead.set_noise_position(static_cast<uint64_t>(counters[2]));
  l.refill = get_entry(state, "off_policy/counters").size() > 3 ? counters[3] : 0;
  l.owed = get_entry(state, "off_policy/owed").data<double>()[0];
  set_own_state(state);
}

OffPolicyNetworks make_off_policy_networks(const ModelFactory& policy, const QModelFactory& critic,
                                           const ModelSpec& spec, int critics, bool target_policy) {
  OffPolicyNetworks networks;
  for (int i = 0; i < critics; ++i) {
    networks.critics.push_back(critic(spec));
    networks.target_critics.push_back(critic(spec));
  }
  if (target_policy) networks.target_policy = policy(spec);
  return networks;
}

}  // namespace parl
