#include "parl/train/algorithm_conformance.h"

#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "parl/algorithms/replay.h"
#include "parl/core/check.h"

namespace parl {
namespace {

constexpr int64_t kBatches = 60;   // learnt until the action has to be found
constexpr int64_t kWanted = 1;     // the discrete action that pays
constexpr double kTarget = 0.5;    // the continuous one
constexpr int64_t kSteps = 1'000;  // agent steps from batch to batch

class Check {
 public:
  Check(const AlgorithmEntry& entry, const TrainConfig& config)
      : entry_(entry), config_(config), continuous_(entry.tanh_policy) {
    spec_ = continuous_ ? ModelSpec{{4}, DType::kF32, 0, 1, {-1}, {1}} : ModelSpec{{4}, DType::kF32, 3, 0};
  }

  std::vector<std::string> run() {
    attempt("learning", [this] { finds_the_action(); });
    attempt("continuing", [this] { continues(); });
    attempt("acting", [this] { acts_alike(); });
    attempt("settings", [this] { settings_travel(); });
    return std::move(problems_);
  }

 private:
  template <typename F>
  void attempt(const char* what, F&& f) {
    try {
      f();
    } catch (const std::exception& error) {
      problems_.push_back(fmt::format("{}: {}", what, error.what()));
    }
  }
  void expect(bool holds, const std::string& otherwise) {
    if (!holds) problems_.push_back(otherwise);
  }

  const char* network() const { return continuous_ ? "mlp64" : "mlp"; }
  std::unique_ptr<Algorithm> learner() const {
    torch::manual_seed(4);
    return entry_.make_learner(program().models.factory(network()), spec_, config_);
  }
  at::Tensor uniforms(int64_t n) const { return continuous_ ? torch::rand({n, 1}) : torch::rand({n}); }

  // Unrolls that the algorithm acted in itself; every step ends. A continuous action loses its distance to the target.
  Batch bandit(Algorithm& algorithm, int64_t unrolls, int64_t length, int64_t seed) const {
    torch::manual_seed(static_cast<uint64_t>(seed));
    Batch b;
    b.obs = torch::randn({unrolls, length + 1, 4});
    const ActOutput out = algorithm.sample(b.obs.narrow(1, 0, length).reshape({-1, 4}), uniforms(unrolls * length));
    b.action = continuous_ ? out.action.view({unrolls, length, 1}) : out.action.view({unrolls, length});
    b.behaviour_logits = out.logits.view({unrolls, length, -1});
    b.reward = continuous_ ? 1 - (b.action.squeeze(2) - kTarget).abs() : b.action.eq(kWanted).to(at::kFloat);
    b.terminated = torch::ones({unrolls, length}, at::kBool);
    b.truncated = torch::zeros({unrolls, length}, at::kBool);
    b.final_index = torch::zeros({0}, at::kLong);
    b.version = torch::zeros({unrolls}, at::kLong);
    return b;
  }

  void finds_the_action() {
    auto learner = this->learner();
    std::string not_finite;
    for (int64_t i = 0; i < kBatches; ++i) {
      for (const auto& [name, value] : learner->learn(bandit(*learner, 8, 16, i), i * kSteps)) {
        if (!std::isfinite(value)) not_finite = name;
      }
    }
    expect(not_finite.empty(), "learn() reports a " + not_finite + " that is not finite");
    const Batch last = bandit(*learner, 8, 16, kSteps);
    const double mean = last.reward.mean().item<double>(), wanted = continuous_ ? 0.8 : 0.9;  // noise costs about 0.1
    expect(mean > wanted, fmt::format("after {} batches in which one action pays 1, sample() earns {:.2f} a step, "
                                      "expected more than {}",
                                      kBatches, mean, wanted));
    const at::Tensor greedy = learner->predict(last.obs.select(1, 0)).action;
    const bool found =
        continuous_ ? (greedy - kTarget).abs().max().item<double>() < 0.2 : greedy.eq(kWanted).all().item<bool>();
    expect(found, fmt::format("after {} batches predict() does not choose the action that pays", kBatches));
  }

  // What a checkpoint carries.
  static void hand_over(Algorithm& from, Algorithm& to) {
    to.set_weights(from.get_weights());
    to.set_state(from.get_state());
    auto* owner = dynamic_cast<ReplayOwner*>(&from);
    if (!owner) return;
    std::string folder = (std::filesystem::temp_directory_path() / "parl_check_XXXXXX").string();
    PARL_CHECK(mkdtemp(folder.data()) != nullptr, "there is no place for a temporary folder: {}", folder);
    owner->replay().save(folder + "/replay");
    dynamic_cast<ReplayOwner&>(to).replay().load(folder + "/replay");
    std::filesystem::remove_all(folder);
  }

  void continues() {
    auto whole = learner(), part = learner(), continued = learner();
    const Batch first = bandit(*whole, 8, 16, 1), second = bandit(*whole, 8, 16, 2);
    whole->learn(first, 5'000);
    part->learn(first, 5'000);
    hand_over(*part, *continued);
    const LearnStats a = whole->learn(second, 5'128), b = continued->learn(second, 5'128);
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      expect(a[i] == b[i],
             fmt::format("continued from get_weights() and get_state(), the next learn() says {} {} where "
                         "it says {} {} without a break",
                         b[i].first, b[i].second, a[i].first, a[i].second));
    }
    const Weights left = whole->get_weights(), right = continued->get_weights();
    expect(a.size() == b.size() && left.entries.size() == right.entries.size(),
           "continued, the next learn() reports or leaves other things");
    for (size_t i = 0; i < left.entries.size() && i < right.entries.size(); ++i) {
      expect(left.entries[i].array == right.entries[i].array,
             fmt::format("continued from get_weights() and get_state(), the next learn() gives another '{}'",
                         left.entries[i].name));
    }
  }

  void acts_alike() {
    auto learner = this->learner();
    for (int64_t i = 0; i < 3; ++i) learner->learn(bandit(*learner, 4, 8, i), 50'000);
    const auto actor =
        entry_.make_actor(program().models.make(network(), entry_.spec_for(spec_, config_.settings)), config_.settings);
    actor->set_weights(learner->get_weights());
    const at::Tensor obs = torch::randn({16, 4}), u = uniforms(16);
    const ActOutput a = learner->sample(obs, u), b = actor->sample(obs, u);
    expect(a.action.equal(b.action), "sample() of an actor draws other actions than the learner's, with its weights");
    expect(a.logits.equal(b.logits), "sample() of an actor gives other logits than the learner's, with its weights");
    expect(learner->predict(obs).action.equal(actor->predict(obs).action),
           "predict() of an actor chooses other actions than the learner's, with its weights");
  }

  void settings_travel() {
    TrainConfig config = config_, read = config_;
    const ConfigFields fields = config_fields(config);
    for (const ConfigField& field : fields) {
      if (field.path == entry_.name + ".lr") config_set(fields, field.path, "0.125");
    }
    read.settings = entry_.settings;
    config_apply(read, config_to_json(fields), "here");
    for (const std::string& difference : config_differences(fields, config_fields(read))) {
      expect(false, "a setting comes back from JSON changed: " + difference);
    }
  }

  const AlgorithmEntry& entry_;
  const TrainConfig& config_;
  bool continuous_;
  ModelSpec spec_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> algorithm_problems(const AlgorithmEntry& entry, const TrainConfig& config) {
  PARL_CHECK(!entry.train && !entry.from_data && entry.make_learner && entry.make_actor,
             "'{}' does not learn from batches that it acted in, or its entry lacks make_learner or make_actor: "
             "check_algorithm() cannot judge it",
             entry.name);
  return Check(entry, config).run();
}

void check_algorithm(const AlgorithmEntry& entry, const TrainConfig& config) {
  const std::vector<std::string> problems = algorithm_problems(entry, config);
  if (problems.empty()) return;
  raise("'{}' breaks the contract of algorithm.h:\n  {}", entry.name, fmt::join(problems, "\n  "));
}

}  // namespace parl
