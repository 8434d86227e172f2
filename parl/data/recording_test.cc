#include "parl/data/recording.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>
#include <vector>

#include "parl/core/error_of.h"
#include "parl/core/files.h"

namespace parl {
namespace {

// Three episodes of 2, 3 and 1 steps; the second was truncated. Step s saw s and did s % 3 for a reward of 10 s; final
// observations are 100 + episode.
RecordedEpisodes small() {
  RecordedEpisodes r;
  r.env = "Somewhere";
  r.contract = "as it is";
  r.num_actions = 3;
  r.obs = Array::from<float>({0, 1, 2, 3, 4, 5});
  r.action = Array::from<int64_t>({0, 1, 2, 0, 1, 2});
  r.reward = Array::from<float>({0, 10, 20, 30, 40, 50});
  r.episode_length = Array::from<int64_t>({2, 3, 1});
  r.terminated = Array::from<bool>({true, false, true});
  r.final_obs = Array::from<float>({100, 101, 102});
  return r;
}

struct File {
  std::string path = (std::filesystem::path(::testing::TempDir()) / ("parl_rec_" + std::to_string(getpid()))).string();
  ~File() { std::filesystem::remove(path); }
};

TEST(RecordedFile, SurvivesItsFile) {
  const File file;
  save_recording(file.path, small());
  const RecordedEpisodes back = load_recording(file.path);
  const RecordedEpisodes there = small();
  EXPECT_EQ(back.env, "Somewhere");
  EXPECT_EQ(back.contract, "as it is");
  EXPECT_EQ(back.num_actions, 3);
  EXPECT_TRUE(back.obs == there.obs && back.action == there.action && back.reward == there.reward);
  EXPECT_TRUE(back.episode_length == there.episode_length && back.terminated == there.terminated);
  EXPECT_TRUE(back.final_obs == there.final_obs);
}

TEST(RecordedFile, ItsNumberOfActionsIsANumber) {
  const File file;
  save_recording(file.path, small());
  std::string bytes = read_file(file.path);
  const size_t at = bytes.find('3', bytes.find("num_actions"));
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'x';
  write_file_atomically(file.path, bytes);
  EXPECT_NE(error_of([&] { load_recording(file.path); }).find("num_actions is 'x'"), std::string::npos);
}

TEST(RecordedFile, WhatDoesNotFitTogetherIsRefused) {
  const auto broken = [](const std::function<void(RecordedEpisodes&)>& change) {
    RecordedEpisodes r = small();
    change(r);
    return error_of([&] { r.check("file"); });
  };
  EXPECT_NE(broken([](RecordedEpisodes& r) {
              r.episode_length = Array::from<int64_t>({2, 2, 1});
            }).find("sum to"),
            std::string::npos);
  EXPECT_NE(broken([](RecordedEpisodes& r) { r.num_actions = 2; }).find("action 2 at step 2"), std::string::npos);
  EXPECT_NE(broken([](RecordedEpisodes& r) {
              r.obs = Array::from<float>({1, 2});
            }).find("as many rows"),
            std::string::npos);
  EXPECT_NE(broken([](RecordedEpisodes& r) { r.final_obs = Array::from<float>({1}); }).find("final_obs"),
            std::string::npos);
  const auto has = [&](const char* text, const std::function<void(RecordedEpisodes&)>& change) {
    EXPECT_NE(broken(change).find(text), std::string::npos) << broken(change);
  };
  has("NaN or inf in reward at step 3", [](RecordedEpisodes& r) { r.reward.data<float>()[3] = NAN; });
  has("NaN or inf in obs at step 5", [](RecordedEpisodes& r) { r.obs.data<float>()[5] = INFINITY; });
  has("NaN or inf in final_obs of episode 1", [](RecordedEpisodes& r) { r.final_obs.data<float>()[1] = NAN; });
  has("terminated of episode 2 is 7", [](RecordedEpisodes& r) { r.terminated.data()[2] = std::byte{7}; });
  const RecordedEpisodes r = small();
  const ModelSpec fits{{}, DType::kF32, 3, 0};
  r.check_fits(fits, "Somewhere", "file");
  EXPECT_NE(error_of([&] {
              r.check_fits({{2}, DType::kF32, 3, 0}, "Elsewhere", "file");
            }).find("recorded in 'Somewhere'"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              r.check_fits({{}, DType::kF32, 4, 0}, "Elsewhere", "file");
            }).find("other actions"),
            std::string::npos);
}

// Two numbers, of 2 and 3; the mask is all there is to see.
TEST(RecordedFile, ActionsThatAMaskForbidsAreRefused) {
  RecordedEpisodes r = small();
  r.num_actions = 5;
  r.obs = Array(DType::kU8, {6, 8});
  r.final_obs = Array(DType::kU8, {3, 8});
  r.action = Array(DType::kI64, {6, 2});
  const auto set_mask = [&](int64_t step, std::initializer_list<uint8_t> mask) {
    std::copy(mask.begin(), mask.end(), r.obs.data<uint8_t>() + step * 8);
  };
  for (int64_t s = 0; s < 6; ++s) set_mask(s, {1, 1, 1, 1, 1});
  set_mask(3, {0, 1, 0, 0, 0});  // of the second number none: all count
  ModelSpec spec{{8}, DType::kU8, 5, 0};
  spec.action_choices = {2, 3};
  spec.parts = {{"action_mask", DType::kU8, {5}, 0}};
  const auto error = [&] { return error_of([&] { r.check_fits(spec, "Somewhere", "file"); }); };
  EXPECT_NE(error().find("'file': the mask of legal actions forbids action 0 at step 3"), std::string::npos) << error();
  r.action.data<int64_t>()[6] = 1;
  r.check_fits(spec, "Somewhere", "file");
  set_mask(5, {1, 1, 1, 1, 0});
  r.check_fits(spec, "Somewhere", "file");
  r.action.data<int64_t>()[11] = 2;
  EXPECT_NE(error().find("forbids action 2 at step 5"), std::string::npos) << error();
  r.action.data<int64_t>()[11] = 3;
  EXPECT_NE(error().find("none of 0..2"), std::string::npos) << error();
}

TEST(RecordedFile, ActionsAreClippedWhereThereAreTwoBounds) {
  RecordedEpisodes r = small();
  r.num_actions = 0;
  const auto actions = [](const std::vector<float>& values) { return Array::from<float>(values, {6, 2}); };
  r.action = actions({0.5f, 3, -2.5f, -3, 1, 1, 1.5f, 0, -1, 9, 0, 0});
  const ModelSpec spec{{}, DType::kF32, 0, 2, {-2, -2}, {2, INFINITY}};
  EXPECT_EQ(r.clip_actions(spec), 2);
  EXPECT_TRUE(r.action == actions({0.5f, 3, -1, -3, 1, 1, 1, 0, -1, 9, 0, 0}));
  EXPECT_EQ(r.clip_actions(spec), 0);
  RecordedEpisodes discrete = small();
  EXPECT_EQ(discrete.clip_actions({{}, DType::kF32, 3, 0}), 0);
}

TEST(RecordedUnrolls, GoThroughEndsAsRolloutsDo) {
  RecordedUnrolls unrolls(small(), 7, 0);
  std::set<int> starts;
  for (int k = 0; k < 40; ++k) {
    const Rollout r = unrolls.next(2, 4, 3);
    ASSERT_EQ(r.obs.shape(), (Shape{2, 5}));
    ASSERT_EQ(r.behaviour_logits.shape(), (Shape{2, 4, 3}));
    std::vector<std::pair<int64_t, float>> finals;
    for (int64_t b = 0; b < 2; ++b) {
      const int first = static_cast<int>(r.obs.data<float>()[b * 5]);
      starts.insert(first);
      for (int64_t t = 0; t < 4; ++t) {
        const int s = static_cast<int>((first + t) % 6);
        const int64_t at = b * 4 + t;
        EXPECT_EQ(r.obs.data<float>()[b * 5 + t], static_cast<float>(s));
        EXPECT_EQ(r.action.data<int64_t>()[at], s % 3);
        EXPECT_EQ(r.reward.data<float>()[at], static_cast<float>(10 * s));
        EXPECT_EQ(r.terminated.data<bool>()[at], s == 1 || s == 5);
        EXPECT_EQ(r.truncated.data<bool>()[at], s == 4);
        if (s == 4) finals.emplace_back(at, 101.0f);
      }
      EXPECT_EQ(r.obs.data<float>()[b * 5 + 4], static_cast<float>((first + 4) % 6));
    }
    ASSERT_EQ(r.final_index.dim(0), static_cast<int64_t>(finals.size()));
    for (size_t i = 0; i < finals.size(); ++i) {
      EXPECT_EQ(r.final_index.data<int64_t>()[i], finals[i].first);
      EXPECT_EQ(r.final_obs.data<float>()[i], finals[i].second);
    }
  }
  EXPECT_EQ(starts.size(), 6u);  // every step can be the first
}

TEST(RecordedUnrolls, GoOnWhereTheyStood) {
  RecordedUnrolls a(small(), 7, 1), b(small(), 7, 1), other(small(), 7, 2);
  a.next(3, 4, 3);
  b.set_position(a.position());
  const Rollout left = a.next(8, 4, 3), right = b.next(8, 4, 3);
  EXPECT_TRUE(left.obs == right.obs);
  EXPECT_FALSE(left.obs == other.next(8, 4, 3).obs);
}

}  // namespace
}  // namespace parl
