#include "parl/env/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parl/core/error_of.h"
#include "parl/env/dummy_env.h"
#include "parl/env/wrappers.h"

namespace parl {
namespace {

using testing::HasSubstr;

EnvRegistry builtin() {
  EnvRegistry registry;
  register_builtin_envs(registry);
  return registry;
}

EnvRequest request(std::string id, EnvArgs args = {}) { return {std::move(id), std::move(args), EnvMode::kTraining}; }

TEST(Registry, HasTheClassicControlTasks) {
  EXPECT_THAT(builtin().names(), testing::ElementsAre("CartPole-v1", "Acrobot-v1", "MountainCar-v0",
                                                      "MountainCarContinuous-v0", "Pendulum-v1"));
}

TEST(Registry, UnknownNameShowsTheNearOnes) {
  const std::string error = error_of([] { builtin().make(request("Cartpole-v1")); });
  EXPECT_THAT(error, HasSubstr("Cartpole-v1"));
  EXPECT_THAT(error, HasSubstr("'CartPole-v1'"));
}

TEST(Registry, UnknownNameOfAFamilyShowsTheNearOnesOfThatFamily) {
  EnvRegistry registry = builtin();
  registry.add(EnvFamily{"toy",
                         "toys",
                         [] {
                           return std::vector<std::string>{"toy:ball", "toy:bell"};
                         },
                         {},
                         [](const EnvRequest&) { return std::make_unique<DummyEnv>(); }});
  EXPECT_EQ(registry.make(request("toy:bell"))->spec().id, "Dummy");
  EXPECT_EQ(registry.family_of("toy:ball").prefix, "toy");
  EXPECT_THAT(error_of([&] { registry.make(request("toy:bal")); }), HasSubstr("'toy:ball'"));
}

TEST(Registry, UnknownOptionShowsTheNearOneAndAll) {
  const std::string error = error_of([] { builtin().make(request("CartPole-v1", {{"max_episode_step", "5"}})); });
  EXPECT_THAT(error, HasSubstr("max_episode_step"));
  EXPECT_THAT(error, HasSubstr("did you mean 'max_episode_steps'"));
  EXPECT_THAT(error, HasSubstr("sutton_barto_reward"));
}

TEST(Registry, BadValueNamesOptionValueAndWhatIsExpected) {
  const auto make = [](const char* value) { builtin().make(request("CartPole-v1", {{"max_episode_steps", value}})); };
  for (const char* bad : {"many", "5x", "", "1.5"}) {
    EXPECT_THAT(error_of([&] { make(bad); }), HasSubstr("must be a whole number")) << bad;
  }
  EXPECT_THAT(error_of([&] { make("-1"); }), HasSubstr("max_episode_steps"));
}

TEST(Registry, TakenNameIsRefused) {
  EnvRegistry registry = builtin();
  const auto make = [](const EnvRequest&) { return std::make_unique<DummyEnv>(); };
  EXPECT_THROW(registry.add("CartPole-v1", "again", make), Error);
  registry.add("Mine", "mine", make);
  EXPECT_THROW(registry.add("Mine", "again", make), Error);
}

TEST(Registry, EveryEnvironmentRecordsEpisodes) {
  EnvRegistry registry;
  registry.add("Plain", "does not record", [](const EnvRequest&) { return std::make_unique<DummyEnv>(); });
  registry.add("Records", "records itself",
               [](const EnvRequest&) { return std::make_unique<EpisodeStatistics>(std::make_unique<DummyEnv>()); });
  for (const std::string& id : registry.names()) {
    const auto env = registry.make(request(id));
    ASSERT_TRUE(env->records_episodes());
    std::vector<std::byte> obs(env->spec().observation.bytes());
    env->reset(1, obs);
    while (!env->step(Action::discrete(1), obs).done()) {
    }
    std::vector<Episode> episodes;
    env->take_episodes(episodes);
    ASSERT_EQ(episodes.size(), 1u) << id << ": once, not twice";
    EXPECT_EQ(episodes[0].raw_return, 1.0);
    EXPECT_THAT(episodes[0].scalars, testing::Contains(testing::Key("visits")));
  }
}

TEST(Registry, FactoryWithoutAnEnvironmentIsAnError) {
  EnvRegistry registry;
  registry.add("Nothing", "none", [](const EnvRequest&) { return std::unique_ptr<Env>(); });
  EXPECT_THROW(registry.make(request("Nothing")), Error);
}

TEST(Registry, OptionsReachTheTask) {
  const EnvRegistry registry = builtin();
  EXPECT_EQ(registry.make(request("CartPole-v1"))->spec().max_episode_steps, 500);
  EXPECT_EQ(registry.make(request("CartPole-v1", {{"max_episode_steps", "9"}}))->spec().max_episode_steps, 9);
  EXPECT_EQ(registry.make(request("CartPole-v1", {{"max_episode_steps", "0"}}))->spec().max_episode_steps, 0);
  const auto env = registry.make(request("CartPole-v1", {{"sutton_barto_reward", "true"}}));
  std::vector<std::byte> obs(env->spec().observation.bytes());
  env->reset(0, obs);
  EXPECT_EQ(env->step(Action::discrete(0), obs).reward, 0.0f);
  StepResult last;
  while (!last.done()) last = env->step(Action::discrete(0), obs);
  EXPECT_EQ(last.reward, -1.0f);
  EXPECT_THAT(registry.make(request("Pendulum-v1", {{"g", "9.81"}}))->spec().contract, HasSubstr("g 9.81"));
}

TEST(Args, AreTyped) {
  const EnvArgs args{{"n", "-3"}, {"x", "0.25"}, {"yes", "true"}, {"no", "0"}, {"mode", "fast"}};
  EXPECT_EQ(arg_int(args, "n", 1), -3);
  EXPECT_EQ(arg_int(args, "absent", 1), 1);
  EXPECT_EQ(arg_double(args, "x", 1), 0.25);
  EXPECT_TRUE(arg_bool(args, "yes", false));
  EXPECT_FALSE(arg_bool(args, "no", true));
  EXPECT_EQ(arg_choice(args, "mode", "slow", {"slow", "fast"}), "fast");
  EXPECT_THAT(error_of([&] { arg_bool(args, "x", true); }), HasSubstr("true or false"));
  EXPECT_THAT(error_of([&] { arg_double(args, "mode", 0); }), HasSubstr("'fast'"));
  EXPECT_THAT(error_of([&] { arg_choice(args, "mode", "slow", {"slow", "faster"}); }), HasSubstr("slow, faster"));
}

}  // namespace
}  // namespace parl
