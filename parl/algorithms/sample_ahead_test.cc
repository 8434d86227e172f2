#include "parl/algorithms/sample_ahead.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parl/agent/tanh_gaussian.h"
#include "parl/core/check.h"

namespace parl {
namespace {

void fill(ReplayBuffer& replay) {
  Batch b;
  b.obs = torch::arange(2 * 9 * 3).view({2, 9, 3}).to(at::kFloat);
  b.action = b.obs.narrow(1, 0, 8).narrow(2, 0, 2) / 100;
  b.behaviour_logits = torch::zeros({2, 8, 4});
  b.reward = torch::zeros({2, 8});
  b.terminated = b.truncated = torch::zeros({2, 8}, at::kBool);
  replay.add(b);
}

ReplayOptions options() { return {.capacity = 16, .seed = 9}; }

TEST(SampleAhead, DrawsWhatDrawingInTurnWould) {
  ReplayBuffer in_turn(options()), replay(options());
  fill(in_turn), fill(replay);
  CounterRng noise(9, 0x701e);
  SampleAhead ahead(replay, 5, 2, 9);
  for (const int64_t count : {1, 7, 0, 2, 40}) {
    ahead.start(count);
    for (int64_t i = 0; i < count; ++i) {
      const DrawnSample& drawn = ahead.next();
      const ReplaySample expected = in_turn.sample(5);
      at::Tensor uniforms = torch::empty({2, 5, 2});
      for (int64_t k = 0; k < uniforms.numel(); ++k) uniforms.mutable_data_ptr<float>()[k] = noise.uniform();
      ASSERT_EQ(drawn.transitions.index, expected.index) << i;
      ASSERT_TRUE(drawn.transitions.obs.equal(expected.obs)) << i;
      ASSERT_TRUE(drawn.noise.equal(normal_from_uniform(uniforms))) << i;
    }
    EXPECT_EQ(ahead.noise_position(), noise.position());  // nothing is drawn beyond what was asked for
  }
  EXPECT_THROW(ahead.next(), Error);
}

TEST(SampleAhead, GoesOnAfterAnErrorInTheMiddle) {
  ReplayBuffer replay(options());
  SampleAhead ahead(replay, 5, 0, 9);
  EXPECT_THROW(ahead.start(3), Error);  // an empty buffer
  fill(replay);
  ahead.start(100);
  ahead.next();
  ahead.cancel();
  fill(replay);  // nobody reads it now
  ahead.start(4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ahead.next().transitions.obs.size(0), 5);
}

}  // namespace
}  // namespace parl
