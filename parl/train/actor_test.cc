#include "parl/train/actor.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parl/agent/tensor_array.h"
#include "parl/core/check.h"
#include "parl/data/batch_buffer.h"
#include "parl/train/program.h"

namespace parl {
namespace {

ActorConfig scripted(int64_t envs, int64_t length) {
  ActorConfig c;
  c.env = "Scripted-v0";
  c.model = "mlp";
  c.algorithm = "impala";
  c.envs = envs;
  c.length = length;
  c.seed = 3;
  return c;
}

Versioned<Weights> weights_for(const ActorConfig& c, int64_t version = 0) {
  torch::manual_seed(5);
  const auto env = program().envs.make({.id = c.env, .args = c.env_args});
  return {version, program().models.make(c.model, model_spec_of(env->spec()))->get_weights()};
}

bool same(const Array& a, const Array& b) { return a == b; }

TEST(Actor, RolloutLayoutAtEpisodeEnds) {
  const ActorConfig c = scripted(2, 7);
  Actor actor(c);
  const Rollout r = actor.sample(weights_for(c));
  const at::Tensor obs = tensor_view(r.obs);
  ASSERT_EQ(obs.sizes(), (std::vector<int64_t>{2, 8, 2}));
  for (int64_t b = 0; b < 2; ++b) {
    EXPECT_EQ(obs[b][0][0].item<float>(), 0);  // episode 0, step 0
    EXPECT_EQ(obs[b][4][1].item<float>(), 4);
    EXPECT_EQ(obs[b][5][0].item<float>(), 1);  // after the end: the reset observation of episode 1
    EXPECT_EQ(obs[b][5][1].item<float>(), 0);
  }
  // Episode 0 is even: it truncates at its fifth step, and the final observation is kept.
  EXPECT_TRUE(r.truncated.data<bool>()[4]);
  EXPECT_FALSE(r.terminated.data<bool>()[4]);
  EXPECT_EQ(r.reward.data<float>()[4], 5);
  ASSERT_EQ(r.final_index.size(), 2);
  EXPECT_EQ(r.final_index.data<int64_t>()[0], 4);
  EXPECT_EQ(r.final_index.data<int64_t>()[1], 7 + 4);
  EXPECT_EQ(tensor_view(r.final_obs)[0][1].item<float>(), 5);
  ASSERT_EQ(r.episodes.size(), 2u);
  EXPECT_EQ(r.episodes[0].raw_return, 15);
  EXPECT_TRUE(r.episodes[0].truncated);
}

TEST(Actor, PackedRolloutsAreTheSameToTheByte) {
  ActorConfig c = scripted(3, 40);
  c.env = "pixel:breakout";
  c.env_args = {{"render", "42"}, {"stack", "4"}, {"max_episode_steps", "25"}};
  c.model = "atari42";
  Actor plain(c), packed(c);
  int64_t ends = 0;
  size_t bytes = 0, packed_bytes = 0;
  for (int i = 0; i < 4; ++i) {
    const Rollout expected = plain.sample(weights_for(c));
    PackedRollout travels = packed.sample_packed(weights_for(c));
    bytes += expected.obs.bytes();
    packed_bytes += travels.frames.bytes();
    const Rollout r = unpack_rollout(std::move(travels));
    EXPECT_TRUE(same(expected.obs, r.obs));
    EXPECT_TRUE(same(expected.final_obs, r.final_obs));
    EXPECT_TRUE(same(expected.action, r.action));
    ends += static_cast<int64_t>(r.episodes.size());
  }
  EXPECT_GT(ends, 0);
  EXPECT_LT(static_cast<double>(packed_bytes), 0.3 * static_cast<double>(bytes));  // a quarter, and each unroll's start
}

TEST(Actor, RowZeroIsThePreviousRowT) {
  const ActorConfig c = scripted(2, 3);
  Actor actor(c);
  const Rollout first = actor.sample(weights_for(c)), second = actor.sample(weights_for(c));
  EXPECT_EQ(second.sequence, 1);
  EXPECT_TRUE(torch::equal(tensor_view(first.obs).select(1, 3), tensor_view(second.obs).select(1, 0)));
  // A terminated step (episode 1 ends at its step 5 = global step 10) has no final observation.
  actor.sample(weights_for(c));
  const Rollout fourth = actor.sample(weights_for(c));
  EXPECT_TRUE(fourth.terminated.data<bool>()[0]);
  EXPECT_EQ(fourth.final_index.size(), 0);
}

TEST(Actor, SplittingOverActorsAndThreadsChangesNothing) {
  ActorConfig whole = scripted(4, 6);
  whole.env = "CartPole-v1";
  whole.pool_threads = 2;
  const auto weights = weights_for(whole);
  Actor one(whole);
  const Rollout all = one.sample(weights);
  for (int64_t part = 0; part < 2; ++part) {
    ActorConfig half = whole;
    half.envs = 2;
    half.first_env = 2 * part;
    half.pool_threads = 1;
    Actor actor(half);
    const Rollout r = actor.sample(weights);
    EXPECT_TRUE(torch::equal(tensor_view(r.obs), tensor_view(all.obs).narrow(0, 2 * part, 2)));
    EXPECT_TRUE(torch::equal(tensor_view(r.action), tensor_view(all.action).narrow(0, 2 * part, 2)));
  }
}

TEST(Actor, SavedStateContinuesToTheBit) {
  ActorConfig c = scripted(3, 5);
  c.env = "CartPole-v1";
  const auto weights = weights_for(c);
  Actor actor(c);
  actor.sample(weights);
  const ActorState state = actor.save_state();
  EXPECT_TRUE(state.has_env_state);
  const Rollout expected = actor.sample(weights);
  Actor other(c);
  other.load_state(state);
  const Rollout got = other.sample(weights);
  EXPECT_TRUE(same(expected.obs, got.obs));
  EXPECT_TRUE(same(expected.action, got.action));
  EXPECT_EQ(expected.sequence, got.sequence);
}

TEST(Actor, GenerationsDiffer) {
  ActorConfig c = scripted(2, 5);
  c.env = "CartPole-v1";
  Actor first(c);
  c.generation = 1;
  Actor second(c);
  EXPECT_FALSE(same(first.sample(weights_for(c)).obs, second.sample(weights_for(c)).obs));
}

// The learner's own forward pass at lag 0 gives the behaviour policy back, over whole rollouts with episode ends.
TEST(Actor, RatioIsOneAtLagZero) {
  ActorConfig c = scripted(3, 40);
  c.env = "CartPole-v1";
  const auto weights = weights_for(c);
  Actor actor(c);
  std::vector<Rollout> rollouts;
  rollouts.push_back(actor.sample(weights));
  BatchBuffer buffer;
  const Batch batch = buffer.assemble(rollouts);
  EXPECT_GT(batch.terminated.sum().item<int64_t>(), 0);
  const auto env = program().envs.make({.id = c.env});
  auto model = program().models.make(c.model, model_spec_of(env->spec()));
  model->set_weights(weights.value());
  const torch::NoGradGuard no_grad;
  const at::Tensor obs = batch.obs.narrow(1, 0, 40).reshape({3 * 40, 4});
  const at::Tensor logp = torch::log_softmax(model->forward(obs).logits, -1).view({3, 40, 2});
  const at::Tensor behaviour = torch::log_softmax(batch.behaviour_logits, -1);
  const at::Tensor index = batch.action.unsqueeze(-1);
  const at::Tensor rho = (logp.gather(-1, index) - behaviour.gather(-1, index)).exp();
  EXPECT_LT((rho - 1).abs().max().item<float>(), 1e-4);
}

TEST(Actor, NeedsFittingSettings) {
  ActorConfig c = scripted(0, 5);
  EXPECT_THROW(Actor{c}, Error);
  c = scripted(2, 5);
  Actor actor(c);
  ActorState state = Actor(scripted(3, 5)).save_state();
  EXPECT_THROW(actor.load_state(state), Error);
}

}  // namespace
}  // namespace parl
