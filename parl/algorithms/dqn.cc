#include "parl/algorithms/dqn.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <sstream>

#include "parl/agent/categorical.h"
#include "parl/agent/masked_model.h"
#include "parl/agent/nonfinite.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/epsilon_greedy.h"
#include "parl/algorithms/finite_batch.h"
#include "parl/algorithms/noisy.h"
#include "parl/algorithms/q_loss.h"
#include "parl/core/check.h"

namespace parl {
namespace {

constexpr uint64_t kLearningNoise = 3'000'000'019, kActingNoise = 3'000'000'037;  // streams apart from all others

ReplayOptions replay_options(const DqnConfig& config) {
  return {config.replay_capacity, config.n_step,         config.gamma,
          config.prioritized,     config.priority_alpha, static_cast<uint64_t>(config.replay_seed)};
}

std::vector<std::string> noisy_layers(const DqnConfig& config) {
  if (config.noisy_layers.empty()) {
    return config.dueling && !config.distributional ? std::vector<std::string>{"policy", "value"}
                                                    : std::vector<std::string>{"policy"};
  }
  std::vector<std::string> out;
  std::istringstream parts(config.noisy_layers);
  for (std::string part; std::getline(parts, part, ',');) out.push_back(part);
  return out;
}

}  // namespace

void DqnConfig::check() const {
  PARL_CHECK(gamma >= 0 && gamma <= 1, "gamma is {}, expected 0..1", gamma);
  PARL_CHECK(lr >= 0 && eps > 0, "lr is {} and eps {}: lr must not be negative, eps must be positive", lr, eps);
  PARL_CHECK(max_grad_norm >= 0, "max-grad-norm is {}, expected 0 or more", max_grad_norm);
  PARL_CHECK(batch_size >= 1, "batch-size is {}, expected at least 1", batch_size);
  PARL_CHECK(train_ratio >= 0 && std::isfinite(train_ratio), "train-ratio is {}, expected 0 or more, and finite",
             train_ratio);
  PARL_CHECK(target_updates >= 1, "target-updates is {}, expected at least 1", target_updates);
  PARL_CHECK(eval_epsilon >= 0 && eval_epsilon <= 1, "eval-epsilon is {}, expected 0..1", eval_epsilon);
  PARL_CHECK(learn_start >= 0, "learn-start is {}, expected 0 or more", learn_start);
  PARL_CHECK(n_step >= 1, "n-step is {}, expected at least 1", n_step);
  PARL_CHECK(priority_alpha >= 0 && priority_alpha <= 1, "priority-alpha is {}, expected 0..1", priority_alpha);
  PARL_CHECK(replay_capacity >= batch_size, "replay-capacity is {}, expected at least batch-size, {}", replay_capacity,
             batch_size);
  if (distributional) atoms_of().check();
  PARL_CHECK(atoms <= 10'000, "atoms is {}, expected at most 10000", atoms);
  PARL_CHECK(std::isfinite(noisy_sigma) && noisy_sigma >= 0, "noisy-sigma is {}, expected 0 or more", noisy_sigma);
  PARL_CHECK(noisy || noisy_layers.empty(), "noisy-layers names '{}', but noisy is off: set it, too", noisy_layers);
  if (!lr_schedule.empty()) Schedule{lr_schedule};
  Schedule{exploration}.check_within(0, 1, "exploration");
  Schedule{priority_beta}.check_within(0, 1, "priority-beta");
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
  int64_t refill = 0;                                       // steps that the buffer must have again before learning
  double owed = 0;                                          // samples to learn for the steps collected so far
  double loss = 0, q = 0, error = 0, target = 0, norm = 0;  // sums over the updates of one learn()
};

Dqn::Dqn(std::shared_ptr<Model> model, DqnConfig config, std::shared_ptr<Model> target, const std::string& device)
    : config_(std::move(config)), device_(device), epsilon_(0) {
  PARL_CHECK(model != nullptr, "an algorithm needs a model");
  PARL_CHECK(model->action_choices().empty(), "dqn chooses one action of a set; this model's actions are {} numbers",
             model->action_choices().size());
  masked_ = dynamic_cast<const MaskedModel*>(model.get()) != nullptr;
  PARL_CHECK(
      !masked_ || !(config_.distributional || config_.noisy),
      "this environment forbids actions (a part 'action_mask'): --distributional and --noisy do not know of that; "
      "leave them out");
  config_.check();
  epsilon_ = Schedule(config_.exploration).at(0);
  model_ = with_noise(std::move(model));
  target_ = target ? with_noise(std::move(target)) : nullptr;
  for (const auto& network : {model_, target_}) {
    if (!network) continue;
    network->to(at::Device(device_));
    network->eval();
  }
  if (target_) model_->sync_weights_to(*target_);
}

std::shared_ptr<Model> Dqn::with_noise(std::shared_ptr<Model> network) const {
  if (!config_.noisy) return network;
  return std::make_shared<NoisyModel>(std::move(network), noisy_layers(config_), config_.noisy_sigma);
}

ModelSpec Dqn::network_spec(ModelSpec spec, const DqnConfig& config) {
  if (config.distributional) spec.num_actions = config.atoms_of().outputs(spec.num_actions);
  return spec;
}

Dqn::~Dqn() = default;

Dqn::Learner& Dqn::learner() const {
  PARL_CHECK(target_ != nullptr, "this Dqn was made without a target network: it acts, it cannot learn");
  if (!learner_) learner_ = std::make_unique<Learner>(*model_, config_);
  return *learner_;
}

at::Tensor Dqn::q_values(const PolicyValue& output) const {
  return config_.distributional ? config_.atoms_of().q_values(output.logits)
                                : plain_q_values(output, config_.dueling, masked_);
}

ActOutput Dqn::act(const at::Tensor& obs) {
  torch::NoGradGuard no_grad;
  return greedy_of(q_values(model_->forward(obs.to(at::Device(device_)))).to(at::kCPU).contiguous());
}

ActOutput Dqn::predict(const at::Tensor& obs) {
  if (config_.noisy) static_cast<NoisyModel&>(*model_).clear_noise();
  return act(obs);
}

ActOutput Dqn::sample(const at::Tensor& obs, const at::Tensor& uniforms) {
  if (config_.noisy && !evaluating_) draw_acting_noise(uniforms);
  ActOutput out = config_.noisy && !evaluating_ ? act(obs) : predict(obs);
  explore(out.action, uniforms, out.logits, epsilon(), masked_);
  return out;
}

// A function of the uniform numbers, so that an actor has no state of its own and a learner acts as its actors do.
void Dqn::draw_acting_noise(const at::Tensor& uniforms) {
  uint64_t seed = kActingNoise;
  for (int64_t i = 0; i < uniforms.numel(); ++i) {
    seed = derive_seed(seed, std::bit_cast<uint32_t>(uniforms.const_data_ptr<float>()[i]));
  }
  auto& network = static_cast<NoisyModel&>(*model_);
  noise_.resize(static_cast<size_t>(network.noise_size()));
  CounterRng rng(seed, 0);
  fill_normal(rng, noise_);
  network.set_noise(noise_);
}

void Dqn::draw_noise(Model& model, NoiseUse use) {
  if (!config_.noisy) return;
  auto& network = static_cast<NoisyModel&>(model);
  noise_.resize(static_cast<size_t>(network.noise_size()));
  const int64_t update = learner_->updates;
  if (noise_source_) {
    noise_source_(use, update, noise_);
  } else {
    const uint64_t seed = derive_seed(static_cast<uint64_t>(config_.replay_seed), kLearningNoise);
    CounterRng rng(derive_seed(seed, static_cast<uint64_t>(use)), static_cast<uint64_t>(update));
    fill_normal(rng, noise_);
  }
  network.set_noise(noise_);
}

at::Tensor Dqn::targets(const ReplaySample& sample) {
  torch::NoGradGuard no_grad;
  const at::Tensor next = sample.next_obs.to(at::Device(device_));
  draw_noise(*target_, NoiseUse::kTarget);
  const PolicyValue out = target_->forward(next);
  const at::Tensor valued = q_values(out).cpu();
  at::Tensor chosen;  // [N, 1]
  if (config_.double_q) {
    draw_noise(*model_, NoiseUse::kChoice);
    chosen = q_values(model_->forward(next)).argmax(1, true).cpu();
  } else {
    chosen = valued.argmax(1, true);
  }
  if (!config_.distributional) return sample.reward + sample.discount * valued.gather(1, chosen).squeeze(1);
  const Atoms atoms = config_.atoms_of();
  const at::Tensor place = chosen.unsqueeze(2).expand({-1, 1, atoms.count});
  const at::Tensor probs = atoms.log_probs(out.logits.cpu()).gather(1, place).squeeze(1).exp();
  return atoms.project(sample.reward, sample.discount, probs);
}

void Dqn::update(double lr, double beta) {
  Learner& l = *learner_;
  const ReplaySample sample = l.replay.sample(config_.batch_size, beta);
  const at::Tensor target = targets(sample);
  l.parameters.zero_gradients();
  draw_noise(*model_, NoiseUse::kOnline);
  const std::unique_ptr<Recording> recording = model_->record(sample.obs.to(at::Device(device_)));
  const PolicyValue output{recording->output().logits.detach().cpu(), recording->output().value.detach().cpu()};
  const QLoss loss = config_.distributional
                         ? atoms_loss(config_.atoms_of(), output, sample.action, target, sample.weight)
                         : huber_loss(output, config_.dueling, sample.action, target, sample.weight, masked_);
  if (!std::isfinite(loss.loss)) {
    throw NonFiniteError("loss",
                         "NaN or inf in the loss; the weights were not changed by it. Lower the learning rate, or look "
                         "at the rewards");
  }
  recording->backward(loss.d_logits.to(at::Device(device_)), loss.d_value.to(at::Device(device_)));
  const double norm = l.parameters.gradient_norm();
  if (!std::isfinite(norm)) {
    const std::string name = l.parameters.find_nonfinite(true);
    throw NonFiniteError("gradient of " + name, fmt::format("NaN or inf in the gradient of '{}'; the weights were not "
                                                            "changed by it. Lower the learning rate or max-grad-norm",
                                                            name));
  }
  l.optimizer.step(lr, config_.max_grad_norm > 0 ? std::min(1.0, config_.max_grad_norm / (norm + 1e-6)) : 1.0);
  l.replay.update_priorities(sample.index, loss.priority);
  l.loss += loss.loss, l.q += loss.q_mean, l.target += loss.target_mean, l.error += loss.td_error, l.norm += norm;
  if (++l.updates % config_.target_updates == 0) model_->sync_weights_to(*target_);
}

// Makes the updates that are owed, as long as nobody interrupts.
void Dqn::pay(double steps) {
  Learner& l = *learner_;
  const auto batch = static_cast<double>(config_.batch_size);
  if (l.owed < batch) return;
  const double lr = l.lr.at(steps), beta = l.beta.at(steps);
  for (; l.owed >= batch && !interrupted(); l.owed -= batch) update(lr, beta);
}

LearnStats Dqn::learn(const Batch& batch, int64_t agent_steps) {
  batch.check();
  Learner& l = learner();
  check_finite(batch, *model_);
  l.loss = l.q = l.error = l.target = l.norm = 0;
  const int64_t before = l.updates;
  pay(static_cast<double>(agent_steps));  // what a stop left over, from what there was then
  l.replay.add(batch);
  const double steps = static_cast<double>(agent_steps + batch.steps());
  epsilon_ = l.epsilon.at(steps);
  const double lag =
      batch.version.defined() ? static_cast<double>(l.calls) - batch.version.to(at::kDouble).mean().item<double>() : 0;
  if (agent_steps + batch.steps() >= config_.learn_start && l.replay.size() >= std::max(config_.batch_size, l.refill)) {
    l.refill = 0;
    l.owed += config_.train_ratio * static_cast<double>(batch.steps());
    pay(steps);
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
                             {"lr", l.lr.at(steps)},
                             {"policy_lag_mean", lag}});
  return stats;
}

ReplayBuffer& Dqn::replay() { return learner().replay; }

void Dqn::replay_lost() { learner().refill = std::min(config_.learn_start, config_.replay_capacity / 2); }

Weights Dqn::get_weights() {
  Weights weights = model_->get_weights();
  for (NamedArray& entry : weights.entries) {
    if (config_.noisy && entry.name.starts_with(kSigma)) entry.name = kExploration + entry.name;
  }
  append_epsilon(weights, epsilon_);
  return weights;
}

void Dqn::set_weights(const Weights& weights) {
  Weights network = network_weights(weights);
  if (config_.noisy) {
    // Sizes of the noise that are not there (another run's network) stay as they are.
    for (const auto& item : model_->named_parameters()) {
      if (!item.key().starts_with(kSigma)) continue;
      const Array* given = find_entry(weights, kExploration + item.key());
      network.entries.push_back({item.key(), given ? *given : to_array(item.value())});
    }
  }
  model_->set_weights(network);
  if (target_) model_->sync_weights_to(*target_);
  epsilon_ = epsilon_of(weights, epsilon_);
}

Weights Dqn::get_state() const {
  const Learner& l = learner();
  Weights state;
  l.optimizer.append_state(state);
  for (NamedArray& entry : target_->get_weights().entries) {
    state.entries.push_back({"target/" + entry.name, std::move(entry.array)});
  }
  state.entries.push_back({"dqn/counters", Array::from<int64_t>({l.calls, l.updates, l.refill})});
  state.entries.push_back({"dqn/owed", Array::from<double>({l.owed})});
  return state;
}

void Dqn::set_state(const Weights& state) {
  Learner& l = learner();
  const Array& counters = get_entry(state, "dqn/counters");
  l.optimizer.set_state(state);
  Weights target;
  for (const NamedArray& entry : state.entries) {
    if (entry.name.starts_with("target/")) target.entries.push_back({entry.name.substr(7), entry.array});
  }
  target_->set_weights(target);
  if (find_entry(state, "replay/counters")) l.replay.set_state(state);
  l.calls = counters.data<int64_t>()[0], l.updates = counters.data<int64_t>()[1];
  l.refill = counters.size() > 2 ? counters.data<int64_t>()[2] : 0;
  l.owed = get_entry(state, "dqn/owed").data<double>()[0];
}

}  // namespace parl
