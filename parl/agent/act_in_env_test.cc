#include "parl/agent/act_in_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "parl/agent/nonfinite.h"
#include "parl/agent/policy_act.h"
#include "parl/core/error_of.h"

namespace parl {
namespace {

using testing::HasSubstr;

// Acts from one layer over observations of two numbers, or over those of a part behind a byte.
struct Net : Model {
  torch::nn::Linear policy{2, 3};
  bool has_parts = false;
  Net() { register_module("policy", policy); }
  PolicyValue forward(const at::Tensor& obs) override {
    const at::Tensor x = has_parts ? obs.slice(1, 4).contiguous().view(at::kFloat) : obs;
    return {policy(x), x.sum(-1)};
  }
};

struct Acting : Algorithm {
  std::shared_ptr<Net> net = std::make_shared<Net>();
  ActOutput sample(const at::Tensor& obs, const at::Tensor& u) override {
    return policy_act(*net, {obs, u}, at::Device("cpu"));
  }
  ActOutput predict(const at::Tensor& obs) override { return policy_act(*net, {obs}, at::Device("cpu")); }
  LearnStats learn(const Batch&, int64_t) override { return {}; }
  Model& model() override { return *net; }
  Weights get_state() const override { return {}; }
  void set_state(const Weights&) override {}
};

const ModelSpec kPlain{{2}, DType::kF32, 3, 0};

TEST(ActInEnv, NamesTheObservationsWhereTheyHoldWhatIsNotFinite) {
  Acting acting;
  at::Tensor obs = torch::ones({4, 2});
  EXPECT_EQ(act_in_env(acting, {obs}, kPlain, "Maze-v0").action.size(0), 4);
  for (const float bad : {std::nanf(""), INFINITY}) {
    obs[2][1] = bad;
    const std::string text = error_of([&] { act_in_env(acting, {obs, torch::rand({4})}, kPlain, "Maze-v0"); });
    EXPECT_THAT(text, HasSubstr("an observation of 'Maze-v0' holds NaN or inf (row 2 of 4)"));
    EXPECT_THROW(act_in_env(acting, {obs}, kPlain, "Maze-v0"), NonFiniteError);
  }
}

TEST(ActInEnv, NamesThePart) {
  Acting acting;
  acting.net->has_parts = true;
  ModelSpec spec{{12}, DType::kU8, 3, 0};
  spec.parts = {{"flag", DType::kU8, {1}, 0}, {"arm", DType::kF32, {2}, 4}};
  at::Tensor obs = torch::zeros({2, 12}, at::kByte);
  obs[1].slice(0, 8, 12).copy_(torch::tensor({NAN}).view(at::kByte));
  const std::string text = error_of([&] { act_in_env(acting, {obs}, spec, "Maze-v0"); });
  EXPECT_THAT(text, HasSubstr("the part 'arm' of an observation of 'Maze-v0' holds NaN or inf (row 1 of 2)"));
}

TEST(ActInEnv, OtherwiseItIsTheWeights) {
  Acting acting;
  const torch::NoGradGuard no_grad;
  acting.net->policy->weight.fill_(NAN);
  const std::string text = error_of([&] { act_in_env(acting, {torch::ones({4, 2})}, kPlain, "Maze-v0"); });
  EXPECT_THAT(text, HasSubstr("the weights have diverged"));
}

}  // namespace
}  // namespace parl
