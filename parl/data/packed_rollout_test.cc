#include "parl/data/packed_rollout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "parl/core/check.h"

namespace parl {
namespace {

constexpr int64_t kB = 3, kT = 6, kSide = 17;  // more pixels than are looked at in one go
constexpr size_t kPixels = kSide * kSide;
int64_t depth = 4;
size_t obs_bytes() { return kPixels * static_cast<size_t>(depth); }

struct Stack {
  std::vector<std::vector<uint8_t>> frames;  // oldest first
  void write(uint8_t* out) const {
    for (size_t i = 0; i < kPixels; ++i) {
      for (const auto& frame : frames) *out++ = frame[i];
    }
  }
};

// What a stacking environment would give: resets after ends, final observations of truncated steps.
Rollout stacked(bool float_obs = false) {
  std::mt19937 random(7);
  const auto frame = [&] {
    std::vector<uint8_t> f(kPixels);
    for (uint8_t& pixel : f) pixel = static_cast<uint8_t>(random());
    return f;
  };
  Rollout r;
  r.actor = 4;
  r.obs = Array(float_obs ? DType::kF32 : DType::kU8, {kB, kT + 1, kSide, kSide, depth});
  r.reward = Array(DType::kF32, {kB, kT});
  if (float_obs) return r;
  std::vector<int64_t> index;
  std::vector<uint8_t> finals(obs_bytes() * 8);
  for (int64_t b = 0; b < kB; ++b) {
    Stack stack;
    for (int64_t c = 0; c < depth; ++c) stack.frames.push_back(frame());
    stack.write(r.obs.data<uint8_t>() + static_cast<size_t>(b * (kT + 1)) * obs_bytes());
    for (int64_t t = 0; t < kT; ++t) {
      stack.frames.erase(stack.frames.begin());
      stack.frames.push_back(frame());
      const bool truncated = (b == 0 && t == 2) || (b == 2 && t == kT - 1), terminated = b == 1 && t == 0;
      if (truncated) {
        stack.write(finals.data() + index.size() * obs_bytes());
        index.push_back(b * kT + t);
      }
      if (truncated || terminated) stack.frames.assign(static_cast<size_t>(depth), frame());
      stack.write(r.obs.data<uint8_t>() + static_cast<size_t>(b * (kT + 1) + t + 1) * obs_bytes());
    }
  }
  const auto count = static_cast<int64_t>(index.size());
  r.final_index = Array::from<int64_t>(std::span<const int64_t>(index), {count});
  finals.resize(static_cast<size_t>(count) * obs_bytes());
  r.final_obs = Array::from<uint8_t>(std::span<const uint8_t>(finals), {count, kSide, kSide, depth});
  return r;
}

bool same(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::equal(a.data(), a.data() + a.bytes(), b.data());
}

class PackedRolloutOf : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { depth = GetParam(); }
  void TearDown() override { depth = 4; }
};
INSTANTIATE_TEST_SUITE_P(Depths, PackedRolloutOf, ::testing::Values(2, 3, 4, 6));

TEST_P(PackedRolloutOf, SendsEachFrameOnceAndGivesEveryByteBack) {
  const Rollout before = stacked();
  PackedRollout packed = pack_rollout(before);
  // The first of each unroll whole; then one frame a step, and one for each final observation.
  EXPECT_EQ(packed.frames.dim(0), kB * depth + kB * kT + 2);
  EXPECT_EQ(packed.rollout.obs.bytes(), 0u);
  EXPECT_EQ(packed.rollout.final_obs.bytes(), 0u);
  const Rollout after = unpack_rollout(std::move(packed));
  EXPECT_TRUE(same(before.obs, after.obs));
  EXPECT_TRUE(same(before.final_obs, after.final_obs));
  EXPECT_EQ(after.actor, 4);
}

TEST_P(PackedRolloutOf, WhatIsNoStackArrivesAsItWas) {
  Rollout odd = stacked();
  odd.obs.data<uint8_t>()[3 * obs_bytes() - 2] ^= 1;  // the last pixel of an older frame
  const Rollout after = unpack_rollout(pack_rollout(odd));
  EXPECT_TRUE(same(odd.obs, after.obs));
  EXPECT_TRUE(same(odd.final_obs, after.final_obs));

  std::mt19937 random(1);
  Rollout noise = stacked();
  std::generate_n(noise.obs.data<uint8_t>(), noise.obs.bytes(), [&] { return static_cast<uint8_t>(random()); });
  noise.final_obs = Array(DType::kU8, {0, kSide, kSide, depth});
  noise.final_index = Array(DType::kI64, {0});
  const PackedRollout unpacked = pack_rollout(noise);
  EXPECT_TRUE(unpacked.obs_shape.empty());
  EXPECT_TRUE(same(noise.obs, unpacked.rollout.obs));

  EXPECT_TRUE(pack_rollout(stacked(true)).obs_shape.empty());
}

TEST(PackedRollout, RefusesDamage) {
  const auto broken = [](auto&& change) {
    PackedRollout packed = pack_rollout(stacked());
    change(packed);
    EXPECT_THROW(unpack_rollout(std::move(packed)), Error);
  };
  broken([](PackedRollout& p) { p.kinds.data<uint8_t>()[0] = 0; });  // follows nothing
  broken([](PackedRollout& p) { p.kinds.data<uint8_t>()[1] = 2; });  // frames run out
  broken([](PackedRollout& p) { p.kinds.data<uint8_t>()[1] = 9; });
  broken([](PackedRollout& p) { p.rollout.final_index.data<int64_t>()[0] = -1; });
  broken([](PackedRollout& p) { p.obs_shape[1] = 100; });
  broken([](PackedRollout& p) { p.frames = Array(DType::kU8, {1, 1}); });
}

}  // namespace
}  // namespace parl
