#include "parl/train/algorithm_conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

#include "parl/algorithms/a2c.h"
#include "parl/core/check.h"
#include "parl/core/error_of.h"
#include "parl/train/program.h"
#include "parl/train/train_config.h"

namespace parl {
namespace {

using ::testing::HasSubstr;

class Conformance : public ::testing::TestWithParam<std::string> {};

// "dqn", or with a preset: "dqn rainbow_classic".
TEST_P(Conformance, IsKept) {
  const size_t space = GetParam().find(' ');
  AlgorithmConformance options;
  if (space != std::string::npos) options.preset = GetParam().substr(space + 1);
  check_algorithm(GetParam().substr(0, space), options);
}

std::vector<std::string> all() {
  std::vector<std::string> names = {"dqn rainbow_classic"};
  for (const AlgorithmEntry& entry : program().algorithms) {
    if (!entry.train && entry.name.find('_') == std::string::npos) names.push_back(entry.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, Conformance, ::testing::ValuesIn(all()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

TEST(ConformanceSuite, ComparesDevices) {
  AlgorithmConformance options;
  options.device = "cpu";
  check_algorithm("a2c", options);
}

TEST(ConformanceSuite, KnowsWhatItCannotDrive) {
  EXPECT_THAT(error_of([] { check_algorithm("es"); }), HasSubstr("training of its own"));
  EXPECT_THAT(error_of([] { check_algorithm("a2d"); }), HasSubstr("a2c"));
}

// Defects, one at a time, over A2C.
struct Faulty : A2c {
  using A2c::A2c;
  static inline std::string fault;

  ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) override {
    ActOutput out = A2c::sample(obs, uniforms);
    if (fault == "clips") out.action = out.action.clamp(-0.5, 0.5);
    if (fault == "batch") out.action = out.action + 0.01 * out.action.mean();
    if (fault == "logits") out.logits = out.logits * 1.5;
    if (fault == "shape") out.action = out.action.unsqueeze(1).unsqueeze(1);
    if (fault == "global random") out.action = out.action + torch::randn_like(out.action);
    return out;
  }
  ActOutput predict(const at::Tensor& obs) override {
    ActOutput out = A2c::predict(obs);
    if (fault == "worst") out.action = -out.action - 1;
    return out;
  }
  LearnStats learn(const Batch& batch, int64_t agent_steps) override {
    Batch b = batch.select(torch::arange(batch.unrolls()));
    const at::Tensor finals = b.truncated.logical_and(b.terminated.logical_not());
    if (fault == "truncation ends") {
      b.terminated = b.terminated.logical_or(b.truncated);
      b.truncated.zero_();
      b.final_index = torch::zeros({0}, at::kLong);
      b.final_obs = at::Tensor();
    }
    if (fault == "reset observation" && b.final_index.numel() > 0) {
      b.final_obs = b.obs.narrow(1, 1, b.length()).flatten(0, 1).index_select(0, b.final_index);
    }
    if (fault == "termination goes on") {
      b.terminated.zero_();
      b.truncated.zero_();
      b.final_index = torch::zeros({0}, at::kLong);
      b.final_obs = at::Tensor();
    }
    if (fault == "nothing") return {};
    if (fault == "wrong way") b.reward = -b.reward;
    if (fault == "eats its batch") batch.reward.zero_();
    if (fault == "NaN") {
      if (!batch.obs.isfinite().all().item<bool>()) {
        torch::NoGradGuard no_grad;
        for (at::Tensor& p : model().parameters()) p.fill_(NAN);
      }
      return A2c::learn(batch, agent_steps);
    }
    if (fault == "chance") b.reward = b.reward + torch::rand({1}).item<float>();
    ++learnt_;
    if (fault == "forgets") b.reward = b.reward / static_cast<double>(learnt_);
    return A2c::learn(b, agent_steps);
  }
  void set_weights(const Weights& weights) override {
    if (fault != "takes any weights") return A2c::set_weights(weights);
    try {
      A2c::set_weights(weights);
    } catch (const Error&) {
    }
  }
  int64_t learnt_ = 0;
};

// All problems of A2C with the fault under continuous (or discrete) actions, one text.
std::string problems(const std::string& fault, bool continuous = true) {
  auto& shared = const_cast<Program&>(program());  // one thread, and as it was afterwards
  AlgorithmEntry entry = shared.algorithm("a2c");
  entry.name = "faulty_a2c";
  entry.discrete_actions = !continuous;
  entry.continuous_actions = continuous;
  entry.make_learner = [](const ModelFactory& factory, const ModelSpec& spec, const TrainConfig& run) {
    A2cConfig config;
    config.optimizer = OptimizerKind::kAdam;
    config.lr = 3e-3;
    config.max_grad_norm = 0.5;
    return std::make_unique<Faulty>(factory(spec), config, ReplicaFactory{}, run.device);
  };
  entry.make_actor = [](std::shared_ptr<Model> model, const AnyConfig&) {
    return std::make_unique<Faulty>(std::move(model), A2cConfig{});
  };
  shared.algorithms.push_back(entry);
  Faulty::fault = fault;
  std::string text = fmt::format("{}", fmt::join(algorithm_problems("faulty_a2c"), "\n"));
  shared.algorithms.pop_back();
  return text;
}

TEST(ConformanceSuite, FindsWhatIsWrong) {
  EXPECT_EQ(problems(""), "");
  EXPECT_THAT(problems("clips"), HasSubstr("not the policy's own"));
  EXPECT_THAT(problems("batch"), HasSubstr("what else is in the batch"));
  EXPECT_THAT(problems("shape"), HasSubstr("not Float [32, 1]"));
  EXPECT_THAT(problems("global random"), HasSubstr("other actions"));
  EXPECT_THAT(problems("worst"), HasSubstr("best action"));
  EXPECT_THAT(problems("truncation ends"), HasSubstr("what follows a truncation does not count"));
  EXPECT_THAT(problems("reset observation"), HasSubstr("what follows a truncation does not count"));
  EXPECT_THAT(problems("termination goes on"), HasSubstr("ends, "));
  EXPECT_THAT(problems("nothing"), HasSubstr("greedy actions pay"));
  EXPECT_THAT(problems("wrong way"), HasSubstr("learning, "));
  EXPECT_THAT(problems("eats its batch"), HasSubstr("changes its batch"));
  EXPECT_THAT(problems("NaN"), HasSubstr("get into the weights"));
  EXPECT_THAT(problems("chance"), HasSubstr("the next learn() has other"));
  EXPECT_THAT(problems("forgets"), HasSubstr("the next learn() gives other weights"));
  EXPECT_THAT(problems("takes any weights"), HasSubstr("of a wrong shape"));
}

TEST(ConformanceSuite, FindsWhatIsWrongWithDiscreteActions) {
  EXPECT_EQ(problems("", false), "");
  EXPECT_THAT(problems("logits", false), HasSubstr("by the behaviour logits"));
  EXPECT_THAT(problems("truncation ends", false), HasSubstr("what follows a truncation does not count"));
  EXPECT_THAT(problems("termination goes on", false), HasSubstr("what follows a termination counts"));
}

}  // namespace
}  // namespace parl
