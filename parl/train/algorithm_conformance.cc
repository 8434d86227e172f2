#include "parl/train/algorithm_conformance.h"

#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "parl/agent/algorithm.h"
#include "parl/agent/nonfinite.h"
#include "parl/agent/tanh_gaussian.h"
#include "parl/agent/tensor_array.h"
#include "parl/algorithms/replay.h"
#include "parl/core/check.h"
#include "parl/train/presets.h"
#include "parl/train/program.h"
#include "parl/train/train_config.h"

namespace parl {
namespace {

constexpr int64_t kObs = 4;  // numbers in an observation
constexpr int64_t kUnrolls = 8, kLength = 16;
constexpr double kPays = 0.5;               // the continuous action that pays most
constexpr int64_t kStepsPerUpdate = 1'000;  // as if so many had been collected: schedules go on, warm-ups end

bool same(const Weights& a, const Weights& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (size_t i = 0; i < a.entries.size(); ++i) {
    if (a.entries[i].name != b.entries[i].name || !(a.entries[i].array == b.entries[i].array)) return false;
  }
  return true;
}

bool all_finite(const Weights& weights) {
  for (const NamedArray& entry : weights.entries) {
    const at::Tensor tensor = to_tensor(entry.array);
    if (tensor.is_floating_point() && !tensor.isfinite().all().item<bool>()) return false;
  }
  return true;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  return a.numel() == 0 ? 0 : (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

std::string shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

// Fills in rewards and ends, given observations and actions.
using Task = std::function<void(Batch&)>;

// One check a method; each adds sentences to problems. One object per kind of actions.
class Examiner {
 public:
  Examiner(const AlgorithmEntry& entry, const AlgorithmConformance& options, bool continuous)
      : entry_(entry), options_(options), continuous_(continuous) {
    const std::string task = continuous ? "Pendulum-v1" : "CartPole-v1";
    config_ = options.preset.empty() ? default_config(entry.name, task) : program().config_of(entry.name);
    config_.env = task;
    if (!options.preset.empty()) apply_preset(config_, options.preset);
    if (!options.settings.empty()) config_.settings = options.settings;
    config_.model = !options.model.empty() ? options.model : continuous ? "mlp64" : "mlp";
    config_.device = "cpu";
    config_ = with_schedules_resolved(std::move(config_));
    if (continuous) {
      spec_ = {{kObs}, DType::kF32, 0, 1, {-1}, {1}};
    } else {
      spec_ = {{kObs}, DType::kF32, 3, 0};
    }
  }

  std::vector<std::string> examine() {
    attempt("made", [&] {
      const std::unique_ptr<Algorithm> algorithm = make(1);
      for (const NamedArray& weight : algorithm->get_weights().entries) {
        explores_ |= weight.name.starts_with(kExploration);
        noisy_ |= weight.name.starts_with(std::string(kExploration) + "sigma");
      }
    });
    if (!problems_.empty()) return problems_;  // the rest would stumble over it
    attempt("weights", [&] { check_weights(); });
    attempt("seeds", [&] { check_seeds(); });
    const size_t before = problems_.size();
    attempt("acting", [&] { check_acting(); });
    if (problems_.size() > before) return problems_;  // what it stores cannot be learnt from
    attempt("acting", [&] { check_policy(); });
    attempt("restore", [&] { check_restore(); });
    attempt("learning", [&] { check_learning(); });
    if (options_.bootstraps && !entry_.from_data) attempt("ends", [&] { check_ends(); });
    attempt("bad input", [&] { check_bad_input(); });
    attempt("devices", [&] { check_devices(); });
    return problems_;
  }

 private:
  void attempt(const std::string& topic, const std::function<void()>& check) {
    topic_ = topic;
    try {
      check();
    } catch (const std::exception& error) {
      problem("threw \"{}\"", error.what());
    }
  }
  template <typename... Args>
  void problem(fmt::format_string<Args...> text, Args&&... args) {
    problems_.push_back(fmt::format("{}, {} actions: {}", topic_, continuous_ ? "continuous" : "discrete",
                                    fmt::format(text, std::forward<Args>(args)...)));
  }

  std::unique_ptr<Algorithm> make(uint64_t seed, const std::string& device = "cpu") const {
    torch::manual_seed(seed);
    TrainConfig config = config_;
    config.device = device;
    std::unique_ptr<Algorithm> learner = entry_.make_learner(program().models.factory(config.model), spec_, config);
    PARL_CHECK(learner != nullptr, "make_learner made none");
    return learner;
  }
  std::unique_ptr<Algorithm> make_actor() const {
    std::unique_ptr<Algorithm> actor = entry_.make_actor(
        program().models.make(config_.model, entry_.spec_for(spec_, config_.settings)), config_.settings);
    PARL_CHECK(actor != nullptr, "make_actor made none");
    return actor;
  }

  at::Tensor uniforms(int64_t n) const { return continuous_ ? torch::rand({n, 1}) : torch::rand({n}); }
  // 1 for the action that pays, 0 for others; continuous ones: 1 - the distance.
  at::Tensor pay_of(const at::Tensor& action) const {
    return continuous_ ? 1 - (action.squeeze(-1) - kPays).abs() : action.eq(1).to(at::kFloat);
  }

  // Unrolls in which `actor` acted by these uniform numbers (an expert where the algorithm learns from data); `task`
  // fills in rewards and ends. obs: [B, T + 1, kObs].
  Batch unrolls(Algorithm& actor, const at::Tensor& numbers, const Task& task, const at::Tensor& obs) const {
    Batch b;
    b.obs = obs;
    const ActOutput out = actor.sample(b.obs.narrow(1, 0, kLength).reshape({-1, kObs}), numbers);
    b.action = continuous_ ? out.action.view({kUnrolls, kLength, 1}) : out.action.view({kUnrolls, kLength});
    if (entry_.from_data) b.action = continuous_ ? at::full_like(b.action, kPays) : at::ones_like(b.action);
    b.behaviour_logits = out.logits.view({kUnrolls, kLength, -1});
    b.reward = torch::zeros({kUnrolls, kLength});
    b.terminated = torch::ones({kUnrolls, kLength}, at::kBool);
    b.truncated = torch::zeros({kUnrolls, kLength}, at::kBool);
    b.version = torch::zeros({kUnrolls}, at::kLong);
    task(b);
    b.final_index = b.truncated.logical_and(b.terminated.logical_not()).flatten().nonzero().squeeze(1);
    b.check();
    return b;
  }
  // Every step an episode: reward is what the action pays.
  Batch bandit(Algorithm& actor, uint64_t seed) const {
    torch::manual_seed(seed);
    const at::Tensor obs = torch::randn({kUnrolls, kLength + 1, kObs});
    return unrolls(
        actor, uniforms(kUnrolls * kLength), [&](Batch& b) { b.reward = pay_of(b.action); }, obs);
  }

  void expect_same_acts(Algorithm& a, Algorithm& b, const std::string& who) {
    torch::manual_seed(9);
    const at::Tensor obs = torch::randn({16, kObs}), numbers = uniforms(16);
    const ActOutput left = a.sample(obs, numbers), right = b.sample(obs, numbers);
    if (!left.action.equal(right.action) || !left.logits.equal(right.logits)) {
      problem("{} samples other actions or logits from the same weights", who);
    }
    if (!a.predict(obs).action.equal(b.predict(obs).action)) problem("{} has other greedy actions", who);
  }

  void check_weights() {
    const std::unique_ptr<Algorithm> learner = make(1), other = make(2), actor = make_actor();
    for (uint64_t i = 0; i < 3; ++i) learner->learn(bandit(*learner, i), 50'000);
    const Weights weights = learner->get_weights();
    other->set_weights(weights);
    if (!same(other->get_weights(), weights)) problem("get_weights() after set_weights() gives others");
    actor->set_weights(weights);
    expect_same_acts(*learner, *actor, "an actor");
    expect_same_acts(*learner, *other, "another learner");

    learner->play_for_evaluation(true);
    if (!same(learner->get_weights(), weights)) problem("play_for_evaluation() changes what get_weights() gives");
    learner->play_for_evaluation(false);

    Weights wrong = weights;
    Array& first = wrong.entries.at(0).array;
    first = Array(first.dtype(), {first.size() + 1});
    bool refused = false;
    try {
      other->set_weights(wrong);
    } catch (const Error&) {
      refused = true;
    }
    if (!refused) problem("set_weights() takes a '{}' of a wrong shape", wrong.entries[0].name);
    if (!same(other->get_weights(), weights)) problem("set_weights() that was refused left other weights");
  }

  void check_seeds() {
    const std::unique_ptr<Algorithm> one = make(1), two = make(1), other = make(2);
    if (!same(one->get_weights(), two->get_weights())) problem("one seed, two networks");
    if (same(one->get_weights(), other->get_weights())) {
      problem("two seeds, one network: initial weights must come from torch's generator");
    }
    for (uint64_t i = 0; i < 2; ++i) {
      const Batch batch = bandit(*one, i);
      torch::manual_seed(i);
      const LearnStats a = one->learn(batch, 50'000);
      torch::manual_seed(i);
      const LearnStats b = two->learn(batch, 50'000);
      if (a != b) problem("the same batch gives other statistics the second time");
    }
    if (!same(one->get_weights(), two->get_weights())) problem("the same batches give other weights the second time");
    if (!same(one->get_state(), two->get_state())) problem("the same batches leave another state the second time");
  }

  void check_acting() {
    const std::unique_ptr<Algorithm> algorithm = make(1);
    torch::manual_seed(5);
    const int64_t n = 32;
    const at::Tensor obs = torch::randn({n, kObs}), numbers = uniforms(n);
    for (const bool greedy : {false, true}) {
      const char* what = greedy ? "predict()" : "sample()";
      const ActOutput out = greedy ? algorithm->predict(obs) : algorithm->sample(obs, numbers);
      const bool right =
          out.action.defined() &&
          (continuous_ ? out.action.scalar_type() == at::kFloat && out.action.sizes() == at::IntArrayRef{n, 1}
                       : out.action.scalar_type() == at::kLong && out.action.sizes() == at::IntArrayRef{n});
      if (!right) {
        problem("the actions of {} are {}, not {}", what, shape_of(out.action),
                continuous_ ? "Float [32, 1]" : "Long [32]");
        continue;
      }
      if (!continuous_ && !(out.action.ge(0).all() & out.action.lt(spec_.num_actions).all()).item<bool>()) {
        problem("{} gives actions that there are not", what);
      }
      if (!greedy && (!out.logits.defined() || out.logits.scalar_type() != at::kFloat || out.logits.dim() != 2 ||
                      out.logits.size(0) != n || out.logits.size(1) != spec_.policy_size())) {
        problem("the logits of sample() are {}, not Float [32, {}]", shape_of(out.logits), spec_.policy_size());
      }
      if (out.action.requires_grad() || (out.logits.defined() && out.logits.requires_grad())) {
        problem("{} records gradients: act under torch::NoGradGuard", what);
      }
    }
    if (!problems_.empty()) return;
    const ActOutput again = algorithm->sample(obs, numbers), whole = algorithm->sample(obs, numbers);
    if (!again.action.equal(whole.action)) problem("the same uniform numbers give other actions the second time");
    if (noisy_) return;
    const at::Tensor parts = at::cat({algorithm->sample(obs.narrow(0, 0, 5), numbers.narrow(0, 0, 5)).action,
                                      algorithm->sample(obs.narrow(0, 5, n - 5), numbers.narrow(0, 5, n - 5)).action});
    if (largest_difference(parts, whole.action) > 1e-5) {
      problem("an observation's action depends on what else is in the batch");
    }
  }

  // Actions against the logits that are stored with them.
  void check_policy() {
    const std::unique_ptr<Algorithm> algorithm = make(3);
    for (uint64_t i = 0; i < 10; ++i) algorithm->learn(bandit(*algorithm, i), 50'000);  // a policy with a preference
    torch::manual_seed(6);
    const at::Tensor several = torch::randn({32, kObs});
    const ActOutput greedy = algorithm->predict(several);
    if (greedy.logits.defined()) {
      at::Tensor best = continuous_ ? greedy.logits.narrow(1, 0, 1) : greedy.logits.argmax(1);
      if (entry_.tanh_policy) best = best.tanh();
      if (largest_difference(best, greedy.action) > 1e-6)
        problem("predict() does not give the best action of its logits");
    }
    if (explores_) return;
    const int64_t n = 4096;  // uniform numbers on a grid: frequencies are exact to 1 / n
    const at::Tensor obs = torch::randn({1, kObs}).expand({n, kObs}).contiguous();
    const at::Tensor grid = (torch::arange(n, at::kFloat) + 0.5) / static_cast<double>(n);
    const ActOutput out = algorithm->sample(obs, continuous_ ? grid.unsqueeze(1) : grid);
    const at::Tensor logits = out.logits[0];
    if (continuous_) {
      const double mean = logits[0].item<double>(), deviation = std::exp(logits[1].item<double>());
      const double seen_mean = out.action.mean().item<double>(), seen = out.action.std().item<double>();
      if (std::abs(seen_mean - mean) > 0.02 * deviation || std::abs(seen / deviation - 1) > 0.02) {
        problem(
            "the stored action is not the policy's own: its logits say mean {:.3f} and deviation {:.3f}, its actions "
            "have "
            "{:.3f} and {:.3f} (clipping and scaling belong to the environment's side)",
            mean, deviation, seen_mean, seen);
      }
      return;
    }
    const at::Tensor probabilities = at::softmax(logits, 0);
    for (int64_t a = 0; a < spec_.num_actions; ++a) {
      const double wanted = probabilities[a].item<double>();
      const double seen = out.action.eq(a).to(at::kDouble).mean().item<double>();
      if (std::abs(seen - wanted) > 2.0 / static_cast<double>(n)) {
        problem("action {} has probability {:.4f} by the behaviour logits and was taken in {:.4f} of the cases", a,
                wanted, seen);
      }
    }
  }

  // What a checkpoint carries: weights, state, and the replay buffer where there is one.
  static void continue_from(Algorithm& from, Algorithm& to) {
    to.set_weights(from.get_weights());
    to.set_state(from.get_state());
    auto* owner = dynamic_cast<ReplayOwner*>(&from);
    if (!owner) return;
    Weights steps;
    owner->replay().append_state(steps);
    dynamic_cast<ReplayOwner&>(to).replay().set_state(steps);
  }

  void check_restore() {
    const std::unique_ptr<Algorithm> whole = make(4), part = make(4), continued = make(5);
    const Batch first = bandit(*whole, 1), second = bandit(*whole, 2);
    whole->learn(first, 5'000);
    part->learn(first, 5'000);
    continue_from(*part, *continued);
    const Weights state = part->get_state();
    std::set<std::string> names;
    for (const NamedArray& entry : state.entries) {
      if (!names.insert(entry.name).second) problem("the state has two entries named '{}'", entry.name);
    }
    if (!same(continued->get_state(), state)) problem("get_state() after set_state() gives another");
    torch::manual_seed(7);
    const LearnStats a = whole->learn(second, 5'128);
    torch::manual_seed(8);  // what the next update depends on must be in the state
    const LearnStats b = continued->learn(second, 5'128);
    if (a != b) problem("after set_weights() and set_state() the next learn() has other statistics");
    if (!same(whole->get_weights(), continued->get_weights())) {
      problem("after set_weights() and set_state() the next learn() gives other weights");
    }
  }

  void check_learning() {
    const std::unique_ptr<Algorithm> algorithm = make(4);
    for (int i = 0; i < options_.updates; ++i) {
      const Batch batch = bandit(*algorithm, static_cast<uint64_t>(i));
      const Batch before = batch.select(torch::arange(kUnrolls));
      algorithm->learn(batch, i * kStepsPerUpdate);
      if (i > 1) continue;
      for (const auto tensor : {&Batch::obs, &Batch::action, &Batch::behaviour_logits, &Batch::reward}) {
        if (!(batch.*tensor).equal(before.*tensor)) return problem("learn() changes its batch");
      }
    }
    torch::manual_seed(1000);
    const double pay = pay_of(algorithm->predict(torch::randn({128, kObs})).action).mean().item<double>();
    const double wanted = continuous_ ? 0.75 : 0.95;
    if (!(pay >= wanted)) {
      problem("after {} updates its greedy actions pay {:.2f} of 1 where the best pay 1 (wanted: {:.2f})",
              options_.updates, pay, wanted);
    }
  }

  // Three kinds of observations: "start", "rich" (1 is earned there, whatever is done) and "poor" (nothing is). From
  // start, the action that pays (a continuous one: with what it pays as its probability) leads without a reward to an
  // end, any other to a termination with 0.3. Every step ends its episode; the next row belongs to the next.
  enum class Place : uint8_t { kStart, kRich, kPoor };
  static at::Tensor place(Place place) {
    at::Tensor obs = torch::zeros({kObs});
    obs[static_cast<int64_t>(place)] = 2;
    return obs;
  }
  // `truncates`: that end is a truncation, whose final observation is rich, and the next row always poor. Else it is a
  // termination, the next row rich, and after any other action poor.
  Batch crossroads(Algorithm& algorithm, uint64_t seed, bool truncates) const {
    torch::manual_seed(seed);
    const at::Tensor numbers = uniforms(kUnrolls * kLength), chance = torch::rand({kUnrolls, kLength});
    at::Tensor obs = place(Place::kStart).repeat({kUnrolls, kLength + 1, 1});
    at::Tensor at_start = torch::zeros({kUnrolls, kLength}, at::kBool);
    at_start.slice(1, 0, kLength, 2).fill_(true);
    at_start[0].fill_(false);  // one unroll of rich alone, so that its value is learnt in any case
    const at::Tensor action =
        algorithm.sample(obs.narrow(1, 0, kLength).reshape({-1, kObs}), numbers).action.view({kUnrolls, kLength, -1});
    const at::Tensor pays = pay_of(continuous_ ? action : action.squeeze(2));
    const at::Tensor ends = at_start.logical_and(chance.lt(pays));
    at::Tensor at_rich = torch::zeros({kUnrolls, kLength + 1}, at::kBool);
    if (!truncates) at_rich.slice(1, 1).copy_(ends);
    at_rich[0].fill_(true);
    at::Tensor at_poor = torch::ones({kUnrolls, kLength + 1}, at::kBool);
    at_poor.slice(1, 0, kLength + 1, 2).fill_(false);
    obs = at::where(at_poor.unsqueeze(2), place(Place::kPoor), obs);
    obs = at::where(at_rich.unsqueeze(2), place(Place::kRich), obs);
    return unrolls(
        algorithm, numbers,
        [&](Batch& batch) {
          batch.reward = at_rich.slice(1, 0, kLength).to(at::kFloat) +
                         0.3 * at_start.logical_and(ends.logical_not()).to(at::kFloat);
          if (!truncates) return;
          batch.truncated = ends;
          batch.terminated = ends.logical_not();
          const int64_t finals = ends.sum().item<int64_t>();
          if (finals > 0) batch.final_obs = place(Place::kRich).repeat({finals, 1});
        },
        obs);
  }
  // Whether it takes the action that pays, at the start.
  bool takes_it(Algorithm& algorithm) const {
    return pay_of(algorithm.predict(place(Place::kStart).unsqueeze(0)).action).item<double>() > 0.5;
  }
  void check_ends() {
    for (const bool truncates : {true, false}) {
      const std::unique_ptr<Algorithm> algorithm = make(4);
      const int most = 8 * options_.updates;
      int right = 0;  // looks in a row
      try {
        for (int i = 0; i < most && (right < 4 || i < options_.updates); ++i) {
          algorithm->learn(crossroads(*algorithm, static_cast<uint64_t>(i), truncates), i * kStepsPerUpdate);
          if (i % 5 == 4) right = takes_it(*algorithm) == truncates ? right + 1 : 0;
        }
      } catch (const NonFiniteError&) {  // it ran away: with right looks or with wrong ones
      }
      if (right >= 4) continue;
      problem("{} (after {} updates)",
              truncates ? "what follows a truncation does not count: an end without reward is truncated, its final "
                          "observation is worth 1, and 0.3 is preferred"
                        : "what follows a termination counts: an end without reward terminates, the next episode is "
                          "worth 1, and it is preferred to 0.3",
              most);
    }
  }

  void check_bad_input() {
    for (const bool in_reward : {true, false}) {
      const std::unique_ptr<Algorithm> algorithm = make(4);
      algorithm->learn(bandit(*algorithm, 1), 50'000);
      Batch batch = bandit(*algorithm, 2);
      if (in_reward) {
        batch.reward.fill_(NAN);
      } else {
        batch.obs.fill_(NAN);
      }
      try {
        algorithm->learn(batch, 51'000);
      } catch (const Error&) {  // the best answer
      }
      if (!all_finite(algorithm->get_weights())) {
        problem("{} of NaN get into the weights: throw NonFiniteError before they are touched",
                in_reward ? "rewards" : "observations");
      }
    }
  }

  void check_devices() {
    std::string device = options_.device;
    if (device == "auto") device = torch::cuda::is_available() ? "cuda:0" : "";
    if (device.empty()) return;
    const std::unique_ptr<Algorithm> here = make(4), there = make(4, device);
    there->set_weights(here->get_weights());
    for (uint64_t i = 0; i < 3; ++i) {
      const Batch batch = bandit(*here, i);
      const LearnStats a = here->learn(batch, 50'000), b = there->learn(batch, 50'000);
      for (size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
        if (std::abs(a[k].second - b[k].second) > 1e-3 * std::max(1.0, std::abs(a[k].second))) {
          problem("{} has {} = {}, the CPU {}", device, b[k].first, b[k].second, a[k].second);
        }
      }
    }
    const Weights a = here->get_weights(), b = there->get_weights();
    for (size_t k = 0; k < std::min(a.entries.size(), b.entries.size()); ++k) {
      const double off = largest_difference(to_tensor(a.entries[k].array), to_tensor(b.entries[k].array));
      if (!(off < 2e-3)) problem("after three updates {} has another '{}': off by {}", device, a.entries[k].name, off);
    }
    there->set_weights(a);
    torch::manual_seed(9);
    const at::Tensor obs = torch::randn({16, kObs}), numbers = uniforms(16);
    const ActOutput cpu = here->sample(obs, numbers), gpu = there->sample(obs, numbers);
    if (!gpu.action.is_cpu() || !gpu.logits.is_cpu()) return problem("what sample() gives is not on the CPU");
    if (largest_difference(cpu.action, gpu.action) > 1e-3) problem("{} acts otherwise than the CPU", device);
  }

  const AlgorithmEntry& entry_;
  const AlgorithmConformance& options_;
  const bool continuous_;
  bool explores_ = false, noisy_ = false;
  TrainConfig config_;
  ModelSpec spec_;
  std::string topic_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> algorithm_problems(const std::string& algorithm, const AlgorithmConformance& options) {
  const AlgorithmEntry& entry = program().algorithm(algorithm);
  PARL_CHECK(!entry.train, "'{}' has a training of its own: whether that learns, only a run can tell", entry.name);
  std::vector<std::string> problems;
  if (!entry.discrete_actions && !entry.continuous_actions) problems.push_back("it learns no kind of actions");
  for (const bool continuous : {false, true}) {
    if (!(continuous ? entry.continuous_actions : entry.discrete_actions)) continue;
    for (std::string& text : Examiner(entry, options, continuous).examine()) problems.push_back(std::move(text));
  }
  return problems;
}

void check_algorithm(const std::string& algorithm, const AlgorithmConformance& options) {
  const std::vector<std::string> problems = algorithm_problems(algorithm, options);
  PARL_CHECK(problems.empty(), "'{}' does not keep the promises of agent/algorithm.h:\n  {}", algorithm,
             fmt::join(problems, "\n  "));
}

}  // namespace parl
