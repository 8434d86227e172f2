#include "parl/agent/atoms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "parl/core/error_of.h"

namespace parl {
namespace {

using ::testing::HasSubstr;

const Atoms kFive{5, -2, 2, false};  // -2 -1 0 1 2

at::Tensor projected(double reward, double discount, std::vector<float> probs) {
  return kFive.project(torch::tensor({reward}, at::kFloat), torch::tensor({discount}, at::kFloat),
                       torch::tensor(probs).view({1, -1}))[0];
}

void expect(const at::Tensor& got, std::vector<float> expected) {
  EXPECT_TRUE(at::allclose(got, torch::tensor(expected), 1e-6, 1e-6)) << got;
}

TEST(Atoms, ProjectionByHand) {
  expect(projected(0, 1, {.1f, .2f, .3f, .3f, .1f}), {.1f, .2f, .3f, .3f, .1f});  // exactly onto the atoms
  expect(projected(1, 1, {.1f, .2f, .3f, .3f, .1f}), {0, .1f, .2f, .3f, .4f});    // by one: the edge keeps the rest
  expect(projected(-1, 1, {.1f, .2f, .3f, .3f, .1f}), {.3f, .3f, .3f, .1f, 0});   // .1 below the edge
  expect(projected(.25, 0, {.2f, .2f, .2f, .2f, .2f}), {0, 0, .75f, .25f, 0});    // terminated: the reward alone
  expect(projected(9, .5, {1, 0, 0, 0, 0}), {0, 0, 0, 0, 1});                     // beyond both edges
  expect(projected(-9, .5, {0, 0, 0, 0, 1}), {1, 0, 0, 0, 0});
  expect(projected(2, 0, {0, 1, 0, 0, 0}), {0, 0, 0, 0, 1});  // exactly the last atom
  expect(projected(0, .5, {0, 1, 0, 0, 0}), {0, .5f, .5f, 0, 0});
}

TEST(Atoms, ProjectionKeepsMassAndMeanInside) {
  torch::manual_seed(1);
  const Atoms atoms{51, -10, 10, false};
  const at::Tensor p = torch::randn({64, 51}).softmax(1), r = torch::rand({64}) - .5, g = torch::full({64}, .9f);
  const at::Tensor m = atoms.project(r, g, p), z = atoms.values();
  EXPECT_TRUE(at::allclose(m.sum(1), torch::ones({64}), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(m.matmul(z), r + g * p.matmul(z), 1e-4, 1e-4));  // none reaches an edge: |.5 + 9| < 10
}

TEST(Atoms, QValuesAreMeans) {
  EXPECT_EQ(kFive.values()[4].item<float>(), 2);
  const at::Tensor logits =
      torch::tensor({.1f, .2f, .3f, .3f, .1f, 1e-9f, 1e-9f, 1e-9f, 1e-9f, 1.f}).log().view({1, 10});
  const at::Tensor q = kFive.q_values(logits);
  EXPECT_NEAR(q[0][0].item<double>(), .1 * -2 + .2 * -1 + .3 + .2, 1e-5);
  EXPECT_NEAR(q[0][1].item<double>(), 2, 1e-5);
}

// By autograd over the definition.
TEST(Atoms, GradientsOfTheLogits) {
  torch::manual_seed(2);
  for (const bool dueling : {false, true}) {
    const Atoms atoms{5, -2, 2, dueling};
    at::Tensor logits = torch::randn({6, atoms.outputs(3)}).requires_grad_(true);
    const at::Tensor action = torch::randint(0, 3, {6}), m = torch::randn({6, 5}).softmax(1);
    const at::Tensor place = action.view({6, 1, 1}).expand({6, 1, 5});
    const at::Tensor taken = atoms.log_probs(logits).gather(1, place).squeeze(1);
    (-(m * taken).sum()).backward();
    const at::Tensor mine = atoms.logits_gradient(taken.detach().exp() - m, action, 3);
    EXPECT_TRUE(at::allclose(mine, logits.grad(), 1e-5, 1e-6)) << dueling;
  }
}

TEST(Atoms, DuelingTakesTheMeanAdvantageOut) {
  const Atoms atoms{2, 0, 1, true};
  const at::Tensor logits = torch::tensor({{1.f, 0.f, 3.f, 0.f, .5f, 0.f}});  // two actions, then the value
  const at::Tensor p = atoms.log_probs(logits).exp();
  const double first = .5 + 1 - 2, second = .5 + 3 - 2;  // of atom 0; atom 1 has 0 everywhere
  EXPECT_NEAR(p[0][0][0].item<double>(), 1 / (1 + std::exp(-first)), 1e-6);
  EXPECT_NEAR(p[0][1][0].item<double>(), 1 / (1 + std::exp(-second)), 1e-6);
}

TEST(Atoms, ErrorsNameTheSetting) {
  EXPECT_THAT(error_of([] { Atoms{1, 0, 1}.check(); }), HasSubstr("atoms is 1"));
  EXPECT_THAT(error_of([] { Atoms{51, 3, 3}.check(); }), HasSubstr("v-min must be below v-max"));
  EXPECT_THAT(error_of([] { Atoms{51, 0, std::numeric_limits<double>::infinity()}.check(); }), HasSubstr("finite"));
  EXPECT_THAT(error_of([] { kFive.actions(12); }), HasSubstr("12 outputs"));
  EXPECT_THAT(error_of([] { Atoms{5, 0, 1, true}.actions(5); }), HasSubstr("for the value"));
  EXPECT_EQ((Atoms{5, 0, 1, true}.actions(15)), 2);
}

}  // namespace
}  // namespace parl
