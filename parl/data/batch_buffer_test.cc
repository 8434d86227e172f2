#include "parl/data/batch_buffer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "parl/core/check.h"

namespace parl {
namespace {

template <typename T>
Array filled(std::vector<int64_t> shape, double start) {
  Array a = Array::empty(dtype_of<T>(), shape);
  for (int64_t i = 0; i < a.size(); ++i) a.data<T>()[i] = static_cast<T>(start + static_cast<double>(i));
  return a;
}

Rollout make(int64_t unrolls, int64_t length, double start, std::vector<int64_t> finals) {
  Rollout r;
  r.version = static_cast<int64_t>(start);
  r.obs = filled<float>({unrolls, length + 1, 2}, start);
  r.action = filled<int64_t>({unrolls, length}, start);
  r.behaviour_logits = filled<float>({unrolls, length, 3}, start);
  r.reward = filled<float>({unrolls, length}, start);
  r.terminated = Array(DType::kBool, {unrolls, length});
  r.truncated = Array(DType::kBool, {unrolls, length});
  r.final_index = Array(DType::kI64, {static_cast<int64_t>(finals.size())});
  std::copy(finals.begin(), finals.end(), r.final_index.data<int64_t>());
  for (int64_t at : finals) r.truncated.data<bool>()[at] = true;
  r.final_obs = filled<float>({static_cast<int64_t>(finals.size()), 2}, start + 0.5);
  return r;
}

TEST(BatchBuffer, StacksRolloutsAndRebasesFinals) {
  std::vector<Rollout> rollouts;
  rollouts.push_back(make(2, 3, 100, {1}));
  rollouts.push_back(make(1, 3, 200, {}));
  rollouts.push_back(make(1, 3, 300, {0, 2}));
  BatchBuffer buffer;
  const Batch batch = buffer.assemble(rollouts);
  EXPECT_EQ(batch.unrolls(), 4);
  EXPECT_EQ(batch.reward[2][0].item<float>(), 200);
  EXPECT_EQ(batch.obs[3][3][1].item<float>(), 307);
  const std::vector<int64_t> expected = {1, 9, 11};
  ASSERT_EQ(batch.final_index.numel(), 3);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(batch.final_index[static_cast<int64_t>(i)].item<int64_t>(), expected[i]);
  EXPECT_EQ(batch.final_obs[2][1].item<float>(), 303.5);
  EXPECT_EQ(batch.version[3].item<int64_t>(), 300);
  batch.check();
}

TEST(BatchBuffer, StacksMemories) {
  std::vector<Rollout> rollouts;
  rollouts.push_back(make(2, 3, 0, {1}));
  rollouts.push_back(make(1, 3, 0, {}));
  rollouts[0].state = filled<float>({2, 4}, 10);
  rollouts[1].state = filled<float>({1, 4}, 20);
  BatchBuffer buffer;
  const Batch batch = buffer.assemble(rollouts);
  batch.check();
  EXPECT_EQ(batch.state[1][0].item<float>(), 14);
  EXPECT_EQ(batch.state[2][3].item<float>(), 23);
  EXPECT_EQ(batch.slice(1, 2).state[1][3].item<float>(), 23);
  EXPECT_EQ(batch.select(torch::tensor({int64_t{2}, int64_t{0}})).state[0][0].item<float>(), 20);
  rollouts[1].state = filled<float>({1, 5}, 20);
  EXPECT_THROW(buffer.assemble(rollouts), Error);
  rollouts[1].state = Array();
  EXPECT_THROW(buffer.assemble(rollouts), Error);
}

TEST(BatchBuffer, ReusesItsMemory) {
  std::vector<Rollout> rollouts;
  rollouts.push_back(make(2, 3, 0, {}));
  BatchBuffer buffer;
  const void* first = buffer.assemble(rollouts).obs.data_ptr();
  EXPECT_EQ(buffer.assemble(rollouts).obs.data_ptr(), first);
}

TEST(BatchBuffer, RefusesRolloutsThatDoNotFit) {
  std::vector<Rollout> rollouts;
  rollouts.push_back(make(1, 3, 0, {}));
  rollouts.push_back(make(1, 4, 0, {}));
  BatchBuffer buffer;
  EXPECT_THROW(buffer.assemble(rollouts), Error);
}

}  // namespace
}  // namespace parl
