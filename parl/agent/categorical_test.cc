#include "parl/agent/categorical.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parl/core/check.h"

namespace parl {
namespace {

// Probabilities 0.1, 0.2, 0.7 and 0.25, 0.75, as logits with different shifts.
at::Tensor two_numbers() {
  return torch::tensor({0.1, 0.2, 0.7, 0.25, 0.75}).log().to(at::kFloat).unsqueeze(0) +
         torch::tensor({3.0f, 3.0f, 3.0f, -5.0f, -5.0f});
}

TEST(Categorical, EachNumberHasAnIntervalOfItsOwnUniform) {
  const std::vector<int64_t> choices = {3, 2};
  struct Case {
    float u, v;
    int64_t a, b;
  };
  for (const Case& c :
       {Case{0.05f, 0.2f, 0, 0}, Case{0.15f, 0.3f, 1, 1}, Case{0.31f, 0.24f, 2, 0}, Case{0.99f, 0.99f, 2, 1}}) {
    const at::Tensor action = sample_categorical(two_numbers(), torch::tensor({{c.u, c.v}}), choices);
    EXPECT_EQ(action[0][0].item<int64_t>(), c.a) << c.u;
    EXPECT_EQ(action[0][1].item<int64_t>(), c.b) << c.v;
  }
  const at::Tensor greedy = greedy_action(two_numbers(), choices);
  EXPECT_EQ(greedy[0][0].item<int64_t>(), 2);
  EXPECT_EQ(greedy[0][1].item<int64_t>(), 1);
}

TEST(Categorical, WithoutChoicesItIsOneAction) {
  const at::Tensor logits = torch::randn({6, 4}), u = torch::rand({6});
  EXPECT_TRUE(sample_categorical(logits, u, {}).equal(sample_categorical(logits, u)));
  EXPECT_TRUE(greedy_action(logits, {}).equal(greedy_action(logits)));
}

TEST(Categorical, ShapesThatDoNotFitAreRefused) {
  EXPECT_THROW(sample_categorical(two_numbers(), torch::rand({1, 2}), {3, 3}), Error);
  EXPECT_THROW(sample_categorical(two_numbers(), torch::rand({1}), {3, 2}), Error);
  EXPECT_THROW(sample_categorical(two_numbers(), torch::rand({1, 3}), {3, 2}), Error);
}

TEST(Categorical, AForbiddenActionIsNeverDrawn) {
  const at::Tensor logits = torch::tensor({{kIllegalLogit, -80.0f, kIllegalLogit, 2.0f, kIllegalLogit}});
  for (const float u : {0.0f, 0.5f, 0.99999994f}) {
    EXPECT_EQ(sample_categorical(logits, torch::tensor({u})).item<int64_t>() % 2, 1);
  }
  EXPECT_EQ(logits.softmax(1)[0][0].item<float>(), 0.0f);
}

}  // namespace
}  // namespace parl
