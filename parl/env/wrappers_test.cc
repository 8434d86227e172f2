#include "parl/env/wrappers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "parl/env/env_conformance.h"
#include "parl/env/match_env.h"
#include "parl/env/state_io.h"

namespace parl {
namespace {

// Plays a script: step t (from 1) gives rewards[t - 1] and an image full of the value t; the reset image is full of
// 100 + the number of resets. Ends after the last reward, terminated or not as told.
class ScriptEnv final : public Env {
 public:
  explicit ScriptEnv(std::vector<float> rewards, bool terminated = true, std::vector<int64_t> shape = {2, 2, 1})
      : rewards_(std::move(rewards)), terminated_(terminated) {
    spec_.id = "Script";
    spec_.observation = Box{DType::kU8, std::move(shape), {0.0}, {255.0}};
    spec_.action = Discrete{3};
  }
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> /*seed*/, std::span<std::byte> obs) override {
    time_ = 0;
    fill(obs, 100 + ++resets_);
  }
  StepResult step(const Action& action, std::span<std::byte> obs) override {
    actions.push_back(action.index);
    StepResult result;
    result.reward = rewards_.at(time_++);
    const bool end = time_ == rewards_.size();
    result.terminated = end && terminated_;
    result.truncated = end && !terminated_;
    fill(obs, static_cast<int>(time_));
    return result;
  }
  void scalars(std::vector<std::pair<std::string, double>>& out) const override {
    out.emplace_back("time", static_cast<double>(time_));
  }

  std::vector<int64_t> actions;

 private:
  // Channel c of a pixel is value + 10 c.
  void fill(std::span<std::byte> obs, int value) const {
    const auto channels = static_cast<size_t>(spec_.observation.shape.back());
    for (size_t i = 0; i < obs.size(); ++i)
      obs[i] = static_cast<std::byte>(value + 10 * static_cast<int>(i % channels));
  }
  EnvSpec spec_;
  std::vector<float> rewards_;
  bool terminated_;
  size_t time_ = 0;
  int resets_ = 0;
};

std::unique_ptr<ScriptEnv> script(std::vector<float> rewards, bool terminated = true) {
  return std::make_unique<ScriptEnv>(std::move(rewards), terminated);
}

std::vector<std::byte> place(const Env& env) { return std::vector<std::byte>(env.spec().observation.bytes()); }

std::vector<int> numbers(std::span<const std::byte> bytes) {
  std::vector<int> out;
  for (std::byte b : bytes) out.push_back(std::to_integer<int>(b));
  return out;
}

std::vector<Episode> episodes_of(Env& env) {
  std::vector<Episode> out;
  env.take_episodes(out);
  return out;
}

TEST(TimeLimit, TruncatesAndStartsAfreshAfterReset) {
  TimeLimit env(script(std::vector<float>(10, 1.0f)), 3);
  EXPECT_EQ(env.spec().max_episode_steps, 3);
  auto obs = place(env);
  EXPECT_THROW(env.step(Action::discrete(0), obs), Error);
  for (int episode = 0; episode < 2; ++episode) {
    env.reset({}, obs);
    for (int t = 1; t <= 3; ++t) {
      const StepResult result = env.step(Action::discrete(0), obs);
      EXPECT_EQ(result.truncated, t == 3);
      EXPECT_FALSE(result.terminated);
    }
    EXPECT_THROW(env.step(Action::discrete(0), obs), Error);
  }
}

TEST(TimeLimit, ReportsBothFlagsAndTheRecordSaysTerminated) {
  EpisodeStatistics env(std::make_unique<TimeLimit>(script({1, 1, 1}), 3));
  auto obs = place(env);
  env.reset({}, obs);
  StepResult result;
  while (!result.done()) result = env.step(Action::discrete(0), obs);
  EXPECT_TRUE(result.terminated);
  EXPECT_TRUE(result.truncated);
  EXPECT_FALSE(episodes_of(env).at(0).truncated);
}

TEST(TimeLimit, KeepsTheShorterLimitInTheSpec) {
  TimeLimit env(std::make_unique<TimeLimit>(script({1, 1, 1}), 5), 9);
  EXPECT_EQ(env.spec().max_episode_steps, 5);
}

TEST(FrameSkip, RepeatsTheActionAndSumsRewards) {
  auto inner = script({1, 2, 4, 8, 16});
  ScriptEnv& seen = *inner;
  FrameSkip env(std::move(inner), 2);
  EXPECT_EQ(env.spec().frames_per_step, 2);
  auto obs = place(env);
  env.reset({}, obs);
  EXPECT_EQ(env.step(Action::discrete(2), obs).reward, 3.0f);
  EXPECT_EQ(numbers(obs)[0], 2) << "the last of the frames";
  EXPECT_EQ(env.step(Action::discrete(1), obs).reward, 12.0f);
  const StepResult last = env.step(Action::discrete(0), obs);
  EXPECT_EQ(last.reward, 16.0f) << "the episode ended inside the skip";
  EXPECT_TRUE(last.terminated);
  EXPECT_THAT(seen.actions, testing::ElementsAre(2, 2, 1, 1, 0));
}

TEST(FrameSkip, CountsTheLimitInAgentSteps) {
  FrameSkip env(std::make_unique<TimeLimit>(script(std::vector<float>(20, 1.0f)), 7), 3);
  EXPECT_EQ(env.spec().max_episode_steps, 3);
  auto obs = place(env);
  env.reset({}, obs);
  int steps = 1;
  while (!env.step(Action::discrete(0), obs).done()) ++steps;
  EXPECT_EQ(steps, 3);
}

TEST(EpisodeStatistics, RecordsEachEpisodeOnceWithScalars) {
  EpisodeStatistics env(script({1, -3, 0.5f}));
  auto obs = place(env);
  for (int episode = 0; episode < 2; ++episode) {
    env.reset({}, obs);
    while (!env.step(Action::discrete(0), obs).done()) {
    }
  }
  const auto episodes = episodes_of(env);
  ASSERT_EQ(episodes.size(), 2u);
  for (const Episode& episode : episodes) {
    EXPECT_EQ(episode.raw_return, -1.5);
    EXPECT_EQ(episode.length, 3);
    EXPECT_FALSE(episode.truncated);
    EXPECT_THAT(episode.scalars, testing::ElementsAre(testing::Pair("time", 3.0)));
  }
  EXPECT_TRUE(episodes_of(env).empty()) << "taken means gone";
}

TEST(EpisodeStatistics, StartsAtZeroAfterATimeLimit) {
  EpisodeStatistics env(std::make_unique<TimeLimit>(script({1, 1, 1, 1}), 2));
  auto obs = place(env);
  for (int episode = 0; episode < 3; ++episode) {
    env.reset({}, obs);
    while (!env.step(Action::discrete(0), obs).done()) {
    }
    const auto episodes = episodes_of(env);
    ASSERT_EQ(episodes.size(), 1u);
    EXPECT_EQ(episodes[0].raw_return, 2.0) << "no score is inherited from the game before";
    EXPECT_EQ(episodes[0].length, 2);
    EXPECT_TRUE(episodes[0].truncated);
  }
}

TEST(EpisodeStatistics, AnEpisodeGivenUpIsNotRecordedAndNotInherited) {
  EpisodeStatistics env(script({1, 1, 1}));
  auto obs = place(env);
  env.reset({}, obs);
  env.step(Action::discrete(0), obs);
  env.reset({}, obs);
  EXPECT_TRUE(episodes_of(env).empty());
  while (!env.step(Action::discrete(0), obs).done()) {
  }
  EXPECT_EQ(episodes_of(env).at(0).raw_return, 3.0);
}

TEST(RewardClip, SignAndRange) {
  const auto rewards = {3.0f, -0.25f, 0.0f, 7.0f};
  const auto play = [&](std::unique_ptr<Env> env) {
    auto obs = place(*env);
    env->reset({}, obs);
    std::vector<float> seen;
    StepResult result;
    while (!result.done()) {
      result = env->step(Action::discrete(0), obs);
      seen.push_back(result.reward);
    }
    EXPECT_EQ(episodes_of(*env).at(0).raw_return, 9.75) << "recorded returns are raw";
    return seen;
  };
  EXPECT_THAT(play(RewardClip::sign(script(rewards))), testing::ElementsAre(1, -1, 0, 1));
  EXPECT_THAT(play(RewardClip::range(script(rewards), -0.1f, 5)), testing::ElementsAre(3, -0.1f, 0, 5));
}

TEST(Wrappers, WrongOrdersAreRefused) {
  const auto recording = [] { return std::make_unique<EpisodeStatistics>(script({1})); };
  EXPECT_THROW(EpisodeStatistics{recording()}, Error);
  EXPECT_THROW(TimeLimit(recording(), 5), Error);
  EXPECT_THROW(FrameSkip(recording(), 2), Error);
  EXPECT_THROW(TimeLimit(RewardClip::sign(script({1})), 5), Error) << "RewardClip adds the recorder";
  EXPECT_THROW(TimeLimit(script({1}), 0), Error);
  EXPECT_THROW(FrameSkip(script({1}), 0), Error);
  EXPECT_THROW(FrameStack(script({1}), 0), Error);
  EXPECT_THROW(RewardClip::range(script({1}), 1, -1), Error);
  EXPECT_THROW(TimeLimit(nullptr, 5), Error);
}

TEST(ScaleObservation, MapsTheSpaceToZeroAndOne) {
  ScaleObservation env(script({1, 1, 1}));
  EXPECT_EQ(env.spec().observation, (Box{DType::kF32, {2, 2, 1}, {0.0}, {1.0}}));
  std::vector<float> obs(4);
  const auto bytes = std::as_writable_bytes(std::span(obs));
  env.reset({}, bytes);
  for (float x : obs) EXPECT_FLOAT_EQ(x, 101.0f / 255);
  env.step(Action::discrete(0), bytes);
  for (float x : obs) EXPECT_FLOAT_EQ(x, 1.0f / 255);
  std::vector<std::byte> small(4);
  EXPECT_THROW(env.reset({}, small), Error);
}

TEST(ScaleObservation, UsesTheBoundsOfEveryElement) {
  struct Vector final : EnvWrapper {
    Vector() : EnvWrapper(script({1, 1})) { mutable_spec().observation = Box{DType::kF32, {2}, {-1, 0}, {1, 10}}; }
    void reset(std::optional<uint64_t>, std::span<std::byte> obs) override {
      const float values[2] = {0.5f, 2.5f};
      std::memcpy(obs.data(), values, sizeof(values));
    }
  };
  ScaleObservation env(std::make_unique<Vector>());
  std::vector<float> obs(2);
  env.reset({}, std::as_writable_bytes(std::span(obs)));
  EXPECT_FLOAT_EQ(obs[0], 0.75f);
  EXPECT_FLOAT_EQ(obs[1], 0.25f);
}

TEST(FrameStack, StacksChannelsOldestFirst) {
  FrameStack env(std::make_unique<ScriptEnv>(std::vector<float>(9, 0), true, std::vector<int64_t>{1, 2, 2}), 3);
  EXPECT_EQ(env.spec().observation.shape, (std::vector<int64_t>{1, 2, 6}));
  auto obs = place(env);
  env.reset({}, obs);
  EXPECT_THAT(numbers(obs), testing::ElementsAre(101, 111, 101, 111, 101, 111, 101, 111, 101, 111, 101, 111));
  for (int t = 0; t < 4; ++t) env.step(Action::discrete(0), obs);
  EXPECT_THAT(numbers(obs), testing::ElementsAre(2, 12, 3, 13, 4, 14, 2, 12, 3, 13, 4, 14));
}

TEST(FrameStack, NoStackCrossesAnEnd) {
  FrameStack env(script({0, 0, 0, 0}), 3);
  auto obs = place(env);
  env.reset({}, obs);
  while (!env.step(Action::discrete(0), obs).done()) {
  }
  EXPECT_THAT(numbers(obs), testing::Each(testing::AnyOf(2, 3, 4)));
  env.reset({}, obs);
  EXPECT_THAT(numbers(obs), testing::Each(102));
  env.step(Action::discrete(0), obs);
  EXPECT_THAT(numbers(std::span(obs).first(3)), testing::ElementsAre(102, 102, 1));
}

TEST(FrameStack, RepeatsBoundsOfElements) {
  struct Vector final : EnvWrapper {
    Vector() : EnvWrapper(script({1, 1})) { mutable_spec().observation = Box{DType::kF32, {2}, {-1, 0}, {1, 10}}; }
  };
  const FrameStack env(std::make_unique<Vector>(), 2);
  EXPECT_EQ(env.spec().observation, (Box{DType::kF32, {4}, {-1, 0, -1, 0}, {1, 10, 1, 10}}));
}

TEST(Wrappers, NameThemselvesInTheContract) {
  std::unique_ptr<Env> env = std::make_unique<FrameSkip>(script({1}), 4);
  env = RewardClip::sign(std::make_unique<TimeLimit>(std::move(env), 9));
  env = std::make_unique<FrameStack>(std::make_unique<ScaleObservation>(std::move(env)), 3);
  for (const char* part :
       {"every action 4 times", "truncated after 9 steps", "its sign", "scaled to [0, 1]", "3 observations"}) {
    EXPECT_THAT(env->spec().contract, testing::HasSubstr(part));
  }
}

TEST(Env, WhatIsNotOfferedSaysSo) {
  const auto env = script({1});
  Image image;
  EXPECT_THROW(env->render(image), Error);
  EXPECT_FALSE(env->can_save_state());
  EXPECT_THROW(env->save_state(), Error);
  EXPECT_THROW(env->load_state({}), Error);
}

TEST(StateReader, RefusesWhatDoesNotFit) {
  StateWriter out;
  out.put(1.5);
  out.put_bytes(std::vector<std::byte>(3));
  const auto bytes = out.take();
  double value = 0;
  {
    StateReader in(bytes);
    in.get(value);
    EXPECT_EQ(value, 1.5);
    EXPECT_THROW(in.finish(), Error);
    std::vector<std::byte> four(4);
    EXPECT_THROW(in.get_bytes(four), Error);
  }
  StateReader cut{std::span<const std::byte>(bytes).first(10)};
  cut.get(value);
  EXPECT_THROW(cut.block(), Error);
}

TEST(Wrappers, OfOneBoxRefuseParts) {
  EXPECT_THROW(FrameStack(std::make_unique<MatchEnv>(), 2), Error);
  EXPECT_THROW(ScaleObservation(std::make_unique<MatchEnv>()), Error);
  check_env([] { return std::make_unique<TimeLimit>(std::make_unique<MatchEnv>(), 3); });
}

}  // namespace
}  // namespace parl
