#include "parl/algorithms/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "parl/core/check.h"
#include "parl/core/error_of.h"

namespace parl {
namespace {

// Unrolls of one environment whose observation is its step number; the reward of step s is s.
struct Counter {
  float now = 0;
  Batch unroll(int64_t length, std::map<int64_t, char> ends = {}) {
    Batch b;
    b.obs = torch::zeros({1, length + 1, 1});
    b.action = torch::zeros({1, length}, at::kLong);
    b.behaviour_logits = torch::zeros({1, length, 2});
    b.reward = torch::zeros({1, length});
    b.terminated = torch::zeros({1, length}, at::kBool);
    b.truncated = torch::zeros({1, length}, at::kBool);
    std::vector<int64_t> places;
    std::vector<float> finals;
    for (int64_t t = 0; t < length; ++t) {
      b.obs[0][t] = now;
      b.reward[0][t] = now;
      b.action[0][t] = static_cast<int64_t>(now);
      ++now;
      if (!ends.count(t)) continue;
      if (ends[t] == 'x') b.terminated[0][t] = true;
      if (ends[t] == 't') {
        b.truncated[0][t] = true;
        places.push_back(t);
        finals.push_back(-now);  // told from the reset observation by its sign
      }
      now += 100;  // the next episode
    }
    b.obs[0][length] = now;
    b.final_index = torch::tensor(places, at::kLong);
    if (!finals.empty()) b.final_obs = torch::tensor(finals).view({-1, 1});
    return b;
  }
};

TEST(SumTree, FindsWhereASumIsReached) {
  SumTree tree(5);
  const double values[] = {0, 2, 0, 1, 3};
  for (int64_t i = 0; i < 5; ++i) tree.set(i, values[i]);
  EXPECT_EQ(tree.total(), 6);
  EXPECT_EQ(tree.find(0), 1);
  EXPECT_EQ(tree.find(1.999), 1);
  EXPECT_EQ(tree.find(2), 3);
  EXPECT_EQ(tree.find(3), 4);
  EXPECT_EQ(tree.find(6), 4);  // rounding may ask for the whole sum: never a leaf of value 0
  tree.set(4, 0);
  EXPECT_EQ(tree.find(3), 3);
}

TEST(Replay, NStepWindowsStopAtEveryEnd) {
  ReplayOptions options;
  options.capacity = 8, options.n_step = 3, options.gamma = 0.5;
  ReplayBuffer replay(options);
  Counter counter;
  replay.add(counter.unroll(8, {{2, 'x'}, {5, 't'}}));  // steps 0 1 2x 103 104 105t 206 207, then 208
  ASSERT_EQ(replay.size(), 8);
  struct Expected {
    float reward, discount, next;
  };
  const std::map<int64_t, Expected> expected = {
      {0, {0 + 0.5f * 1 + 0.25f * 2, 0, 0}},  // terminated within
      {1, {1 + 0.5f * 2, 0, 0}},
      {2, {2, 0, 0}},
      {103, {103 + 0.5f * 104 + 0.25f * 105, 0.125f, -106}},  // truncated: the final observation, not the reset one
      {104, {104 + 0.5f * 105, 0.25f, -106}},
      {105, {105, 0.5f, -106}},
      {206, {206 + 0.5f * 207, 0.25f, 208}},  // the unroll ends: a shorter window
      {207, {207, 0.5f, 208}}};
  std::map<int64_t, int> seen;
  const ReplaySample sample = replay.sample(400);
  for (int64_t i = 0; i < 400; ++i) {
    const int64_t step = sample.action[i].item<int64_t>();
    const Expected& e = expected.at(step);
    ++seen[step];
    EXPECT_EQ(sample.obs[i].item<float>(), static_cast<float>(step));
    EXPECT_FLOAT_EQ(sample.reward[i].item<float>(), e.reward) << step;
    EXPECT_FLOAT_EQ(sample.discount[i].item<float>(), e.discount) << step;
    EXPECT_FLOAT_EQ(sample.next_obs[i].item<float>(), e.next) << step;
    EXPECT_EQ(sample.weight[i].item<float>(), 1);
  }
  EXPECT_EQ(seen.size(), 8u);
}

TEST(Replay, TheOldestUnrollsGo) {
  ReplayOptions options;
  options.capacity = 8;
  ReplayBuffer replay(options);
  Counter counter;
  for (int i = 0; i < 5; ++i) replay.add(counter.unroll(4));
  EXPECT_EQ(replay.size(), 8);
  const ReplaySample sample = replay.sample(200);
  EXPECT_EQ(sample.action.min().item<int64_t>(), 12);
  EXPECT_EQ(sample.action.max().item<int64_t>(), 19);
  EXPECT_THROW(replay.add(counter.unroll(5)), Error);
}

TEST(Replay, PrioritiesDecideAndWeightsCorrect) {
  ReplayOptions options;
  options.capacity = 4, options.prioritized = true, options.alpha = 1;
  ReplayBuffer replay(options);
  Counter counter;
  replay.add(counter.unroll(4));
  replay.update_priorities({0, 1, 2, 3}, torch::tensor({1.0, -2.0, 3.0, 4.0}));
  const int64_t n = 4000;
  const ReplaySample sample = replay.sample(n, 1.0);
  for (int64_t k = 0; k < 4; ++k) {
    const double share = sample.action.eq(k).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(share, 0.1 * static_cast<double>(k + 1), 0.001) << k;  // stratified: nearly exact
  }
  // (N P)^-1, divided by the largest: proportional to 1 / priority.
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_NEAR(sample.weight[i].item<double>(), 1.0 / static_cast<double>(sample.action[i].item<int64_t>() + 1), 1e-4);
  }
  replay.add(counter.unroll(4));  // new steps have the highest priority seen
  EXPECT_NEAR(replay.sample(n).action.eq(4).to(at::kDouble).mean().item<double>(), 0.25, 0.001);
}

// Frame stacks as an environment makes them: [H, W, 3], newest last, all alike after a reset.
Batch frames(int64_t unrolls, int64_t length, std::map<int64_t, char> ends, std::vector<at::Tensor>& stack) {
  Batch b;
  b.obs = torch::zeros({unrolls, length + 1, 2, 2, 3}, at::kByte);
  b.action = torch::zeros({unrolls, length}, at::kLong);
  b.behaviour_logits = torch::zeros({unrolls, length, 2});
  b.reward = torch::zeros({unrolls, length});
  b.terminated = torch::zeros({unrolls, length}, at::kBool);
  b.truncated = torch::zeros({unrolls, length}, at::kBool);
  const auto push = [](const at::Tensor& stack, const at::Tensor& frame) {
    return at::cat({stack.narrow(2, 1, 2), frame}, 2);
  };
  const auto picture = [] { return torch::randint(0, 256, {2, 2, 1}, at::kByte); };
  std::vector<int64_t> places;
  std::vector<at::Tensor> finals;
  stack.resize(static_cast<size_t>(unrolls));
  for (int64_t u = 0; u < unrolls; ++u) {
    at::Tensor& now = stack[static_cast<size_t>(u)];
    if (!now.defined()) now = picture().expand({2, 2, 3}).contiguous();
    for (int64_t t = 0; t < length; ++t) {
      b.obs[u][t] = now;
      b.action[u][t] = u * length + t;
      now = push(now, picture());
      if (ends.count(u * length + t)) {
        if (ends[u * length + t] == 't') {
          b.truncated[u][t] = true;
          places.push_back(u * length + t);
          finals.push_back(now);
        } else {
          b.terminated[u][t] = true;
        }
        now = picture().expand({2, 2, 3}).contiguous();
      }
    }
    b.obs[u][length] = now;
  }
  b.final_index = torch::tensor(places, at::kLong);
  if (!finals.empty()) b.final_obs = at::stack(finals);
  return b;
}

void expect_equals_batch(ReplayBuffer& replay, const Batch& batch) {
  const ReplaySample sample = replay.sample(500);
  const int64_t length = batch.length();
  for (int64_t i = 0; i < 500; ++i) {
    const int64_t at = sample.action[i].item<int64_t>(), u = at / length, t = at % length;
    EXPECT_TRUE(sample.obs[i].equal(batch.obs[u][t])) << at;
    if (sample.discount[i].item<float>() == 0) continue;
    at::Tensor next = batch.obs[u][t + 1];
    if (batch.truncated[u][t].item<bool>()) {
      next = batch.final_obs[batch.final_index.eq(at).nonzero().item<int64_t>()];
    }
    EXPECT_TRUE(sample.next_obs[i].equal(next)) << at;
  }
}

TEST(Replay, FrameStacksAreStoredOncePerFrame) {
  torch::manual_seed(1);
  ReplayOptions options;
  options.capacity = 24;
  ReplayBuffer replay(options);
  std::vector<at::Tensor> stack;
  frames(2, 12, {}, stack);  // so that the first observation is not a reset
  const Batch batch = frames(2, 12, {{0, 'x'}, {3, 't'}, {5, 'x'}, {11, 't'}, {12, 't'}, {23, 'x'}}, stack);
  replay.add(batch);
  EXPECT_TRUE(replay.stores_frames());
  expect_equals_batch(replay, batch);
}

TEST(Replay, WhatIsNoFrameStackIsStoredWhole) {
  torch::manual_seed(2);
  ReplayOptions options;
  options.capacity = 24;
  ReplayBuffer replay(options);
  std::vector<at::Tensor> stack;
  const Batch first = frames(1, 12, {{4, 't'}}, stack);
  replay.add(first);
  EXPECT_TRUE(replay.stores_frames());
  Batch second = frames(1, 12, {}, stack);
  second.action.add_(12);
  second.obs[0][5][1][1][0] += 1;  // no stack any more
  replay.add(second);
  EXPECT_FALSE(replay.stores_frames());
  Batch both;
  both.obs = at::cat({first.obs, second.obs});
  both.reward = at::cat({first.reward, second.reward});
  both.truncated = at::cat({first.truncated, second.truncated});
  both.final_index = first.final_index, both.final_obs = first.final_obs;
  expect_equals_batch(replay, both);
}

TEST(Replay, ContinuesToTheBit) {
  for (const bool prioritized : {false, true}) {
    torch::manual_seed(3);
    ReplayOptions options;
    options.capacity = 48, options.prioritized = prioritized, options.n_step = 2, options.seed = 5;
    ReplayBuffer replay(options);
    std::vector<at::Tensor> stack;
    replay.add(frames(2, 12, {{3, 't'}, {14, 'x'}}, stack));
    const ReplaySample before = replay.sample(8);
    replay.update_priorities(before.index, torch::rand({8}));
    Weights state;
    replay.append_state(state);
    ReplayBuffer copy(options);
    copy.set_state(state);
    const Batch more = frames(2, 12, {{20, 't'}}, stack);
    for (ReplayBuffer* buffer : {&replay, &copy}) buffer->add(more);
    const ReplaySample a = replay.sample(64), b = copy.sample(64);
    EXPECT_EQ(a.index, b.index);
    EXPECT_TRUE(a.obs.equal(b.obs));
    EXPECT_TRUE(a.next_obs.equal(b.next_obs));
    EXPECT_TRUE(a.weight.equal(b.weight));
  }
}

TEST(Replay, ContinuousActionsStayWithTheirSteps) {
  ReplayBuffer replay({.capacity = 8, .n_step = 1, .gamma = 0.9, .seed = 3});
  Counter env;
  const auto continuous = [&](std::map<int64_t, char> ends) {
    Batch b = env.unroll(4, std::move(ends));
    b.action = at::stack({b.obs.narrow(1, 0, 4).squeeze(2), -b.obs.narrow(1, 0, 4).squeeze(2)}, 2) / 1000;
    b.behaviour_logits = torch::zeros({1, 4, 4});
    return b;
  };
  replay.add(continuous({{1, 't'}}));
  replay.add(continuous({{2, 'x'}}));
  ReplaySample sample;
  replay.sample_into(sample, 40);
  const void* memory = sample.obs.const_data_ptr();
  replay.sample_into(sample, 40);
  EXPECT_EQ(sample.obs.const_data_ptr(), memory);  // used again
  EXPECT_EQ(sample.index.size(), 40u);
  ASSERT_EQ(sample.action.sizes(), at::IntArrayRef({40, 2}));
  EXPECT_TRUE(sample.action.select(1, 0).equal(sample.obs.squeeze(1) / 1000));
  EXPECT_TRUE(sample.action.select(1, 1).equal(-sample.obs.squeeze(1) / 1000));
  Weights state;
  replay.append_state(state);
  ReplayBuffer other({.capacity = 8, .n_step = 1, .gamma = 0.9, .seed = 3});
  other.set_state(state);
  EXPECT_TRUE(other.sample(40).action.equal(replay.sample(40).action));
  EXPECT_THROW(replay.add(env.unroll(4)), Error);  // whole numbers now
}

struct File {
  std::string path = ::testing::TempDir() + "/parl_replay_" + std::to_string(getpid());
  ~File() { std::filesystem::remove(path); }
};

TEST(Replay, AFileContinuesToTheBit) {
  for (const bool prioritized : {false, true}) {
    const File file;
    torch::manual_seed(3);
    ReplayOptions options;
    options.capacity = 48, options.prioritized = prioritized, options.n_step = 2, options.seed = 5;
    ReplayBuffer replay(options), copy(options);
    replay.save(file.path);  // an empty one, too
    copy.load(file.path);
    EXPECT_EQ(copy.size(), 0);
    std::vector<at::Tensor> stack;
    replay.add(frames(2, 12, {{3, 't'}, {14, 'x'}, {20, 't'}}, stack));
    replay.update_priorities(replay.sample(8).index, torch::rand({8}));
    replay.save(file.path);
    copy.load(file.path);
    EXPECT_EQ(copy.capacity_bytes(), replay.capacity_bytes());
    const Batch more = frames(2, 12, {{20, 't'}}, stack);
    for (ReplayBuffer* buffer : {&replay, &copy}) buffer->add(more);
    const ReplaySample a = replay.sample(64), b = copy.sample(64);
    EXPECT_EQ(a.index, b.index);
    EXPECT_TRUE(a.obs.equal(b.obs));
    EXPECT_TRUE(a.next_obs.equal(b.next_obs));
    EXPECT_TRUE(a.weight.equal(b.weight));
  }
}

// What is written is what was filled, and writing it takes no second copy.
TEST(Replay, SavingStreams) {
  const File file;
  Batch b;
  const int64_t unrolls = 20, length = 32, pixels = 100'000;  // 66 MB
  b.obs = torch::zeros({unrolls, length + 1, pixels}, at::kByte);
  b.action = torch::zeros({unrolls, length}, at::kLong);
  b.behaviour_logits = torch::zeros({unrolls, length, 2});
  b.reward = torch::zeros({unrolls, length});
  b.terminated = b.truncated = torch::zeros({unrolls, length}, at::kBool);
  b.final_index = torch::zeros({0}, at::kLong);
  ReplayOptions options;
  options.capacity = unrolls * length;
  ReplayBuffer replay(options);
  replay.add(b);
  const auto peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;  // MB
  };
  const long before = peak();
  replay.save(file.path);
  EXPECT_LT(peak() - before, 20);
  EXPECT_NEAR(static_cast<double>(std::filesystem::file_size(file.path)) / 1e6, 66, 1);
}

TEST(Replay, ADamagedFileIsAnErrorAndLeavesAnEmptyBuffer) {
  const File file;
  ReplayOptions options;
  options.capacity = 8;
  ReplayBuffer replay(options), copy(options);
  Counter counter;
  replay.add(counter.unroll(4));
  replay.save(file.path);
  std::filesystem::resize_file(file.path, std::filesystem::file_size(file.path) - 3);
  copy.add(counter.unroll(4));
  EXPECT_THROW(copy.load(file.path), Error);
  EXPECT_EQ(copy.size(), 0);
  EXPECT_THROW(copy.load("/nowhere/x"), Error);
  EXPECT_THROW(replay.save("/nowhere/x"), Error);
  EXPECT_EQ(replay.size(), 4);
}

TEST(Replay, MemoryIsForeseen) {
  ReplayOptions options;
  options.capacity = 24, options.prioritized = true;
  ReplayBuffer whole(options);
  const ReplayMemory vectors = whole.memory_for({{1}, DType::kF32, 2, 0}, 8);
  EXPECT_EQ(vectors.least, vectors.most);
  Counter counter;
  whole.add(counter.unroll(8));
  EXPECT_EQ(whole.capacity_bytes(), vectors.most);

  torch::manual_seed(1);
  const ModelSpec images{{2, 2, 3}, DType::kU8, 2, 0};
  ReplayBuffer stacks(options);
  const ReplayMemory memory = stacks.memory_for(images, 12);
  EXPECT_LT(memory.least, memory.most);
  std::vector<at::Tensor> stack;
  const Batch batch = frames(2, 12, {{4, 't'}}, stack);
  stacks.add(batch);
  EXPECT_EQ(stacks.capacity_bytes(), memory.least);
  Batch torn = batch;
  torn.obs = batch.obs.clone();
  torn.obs[0][5][1][1][0] += 1;
  stacks.add(torn);
  EXPECT_EQ(stacks.capacity_bytes(), memory.most);
}

TEST(Replay, MemoryThatIsNotThereIsAnError) {
  ReplayOptions options;
  options.capacity = 800;
  ReplayBuffer replay(options);
  Counter counter;
  replay.limit_memory(500);
  EXPECT_THAT(error_of([&] { replay.add(counter.unroll(8)); }), ::testing::HasSubstr("--replay-capacity"));
  replay.limit_memory(0);
  replay.add(counter.unroll(8));

  torch::manual_seed(1);
  ReplayBuffer stacks(options);
  std::vector<at::Tensor> stack;
  const Batch batch = frames(1, 8, {}, stack);
  // 800 steps in frames: 100 unrolls of 3 + 8 frames of 4 pixels; beside them an action, a reward, two ends.
  stacks.limit_memory(100 * 11 * 4 + 800 * (8 + 4 + 2));
  stacks.add(batch);
  Batch torn = batch;
  torn.obs = batch.obs.clone();
  torn.obs[0][5][1][1][0] += 1;
  EXPECT_THAT(error_of([&] { stacks.add(torn); }), ::testing::HasSubstr("no stack of frames"));
}

TEST(Replay, AnEmptyOneSaysSo) { EXPECT_THROW(ReplayBuffer({}).sample(1), Error); }

}  // namespace
}  // namespace parl
