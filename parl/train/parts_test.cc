// Observations of parts, actions of several numbers and masks, from the environment's spec to a trained policy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parl/core/error_of.h"
#include "parl/env/match_env.h"
#include "parl/models/policy.h"
#include "parl/train/evaluate.h"
#include "parl/train/program.h"
#include "parl/train/train_test_util.h"
#include "parl/train/trainer.h"

namespace parl {
namespace {

using ::testing::HasSubstr;

TEST(ModelSpec, OfPartsSeveralNumbersAndAMask) {
  const ModelSpec spec = model_spec_of(MatchEnv(MatchEnv::Actions::kSeveral, true).spec());
  EXPECT_EQ(spec.num_actions, 5);
  EXPECT_EQ(spec.policy_size(), 5);
  EXPECT_EQ(spec.action_choices, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(spec.obs_dtype, DType::kU8);
  EXPECT_EQ(spec.obs_shape, std::vector<int64_t>{96});  // 64 + 8 + 2 (+ 6) + 8 + 5 (+ 3)
  ASSERT_EQ(spec.parts.size(), 5u);
  EXPECT_EQ(spec.parts[0].scale, 1.0 / 255);
  EXPECT_EQ(spec.parts[1].name, "arm/0");
  EXPECT_TRUE(spec.parts[1].choices.empty());
  EXPECT_EQ(spec.parts[2].choices, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(spec.parts[3].choices, std::vector<int64_t>{3});
  ASSERT_NE(spec.action_mask(), nullptr);
  EXPECT_EQ(spec.action_mask()->offset, 88);
  const ModelSpec one = model_spec_of(MatchEnv().spec());
  EXPECT_TRUE(one.action_choices.empty());
  EXPECT_EQ(one.num_actions, 3);
  EXPECT_EQ(one.action_mask(), nullptr);
}

TEST(ModelSpec, AMaskThatDoesNotFitTheActionsIsRefused) {
  EnvSpec spec;
  spec.id = "Odd";
  spec.set_observation(Dict{{{"x", Box{}}, {kActionMask, MultiBinary{3}}}});
  spec.action = Discrete{4};
  EXPECT_THAT(error_of([&] { model_spec_of(spec); }), HasSubstr("uint8 or bool [4]"));
  spec.action = Box{DType::kF32, {2}};
  EXPECT_THAT(error_of([&] { model_spec_of(spec); }), HasSubstr("continuous"));
}

TrainConfig match_config(const std::string& algorithm, const std::string& actions, bool mask, const std::string& run) {
  TrainConfig c = program().config_of(algorithm);
  c.env = "Match-v0";
  c.env_args = {{"actions", actions}, {"mask", mask ? "true" : "false"}};
  c.run = run;
  c.deterministic = true;
  c.actors = 2;
  c.envs_per_actor = 8;
  c.rollout_length = 16;
  c.steps = 60'000;
  c.until_return = 3.6;  // of 4
  config_set(config_fields(c), "lr", "2e-3");
  return c;
}

TEST(Parts, AlgorithmsSayWhichActionsTheyCannotLearn) {
  testing::TempDir dir;
  const std::string text = error_of([&] { train(match_config("dqn", "several", false, dir.file("run"))); });
  EXPECT_THAT(text, HasSubstr("dqn chooses one action of a set; those of 'Match-v0' are 2 numbers each"));
  EXPECT_THAT(text, HasSubstr("ppo"));
  AlgorithmEntry own;
  own.name = "own";
  const ModelSpec masked = model_spec_of(MatchEnv(MatchEnv::Actions::kOne, true).spec());
  EXPECT_THAT(error_of([&] { check_actions(own, masked, "Match-v0"); }), HasSubstr("dqn"));
}

// Trains until the return that is wanted; how many forbidden actions were taken on the way.
double illegal_actions_until_learnt(const TrainConfig& config) {
  double illegal = 0;
  int64_t episodes = 0;
  TrainHooks hooks;
  hooks.show_status = false;
  hooks.on_episode = [&](const Episode& episode, int64_t) {
    ++episodes;
    illegal += episode.scalars.at(0).second;
  };
  const TrainSummary summary = train(config, hooks);
  EXPECT_EQ(summary.stop_reason, "until_return") << "after " << summary.steps << " steps";
  EXPECT_GT(episodes, 100);
  return illegal;
}

struct Case {
  const char *algorithm, *actions;
  bool mask;
};

class LearnsToMatch : public ::testing::TestWithParam<Case> {};

TEST_P(LearnsToMatch, AndNeverTakesWhatIsForbidden) {
  testing::TempDir dir;
  const Case& c = GetParam();
  TrainConfig config = match_config(c.algorithm, c.actions, c.mask, dir.file("run"));
  if (c.algorithm == std::string("ga3c")) {  // one pass over each batch: small ones
    config.rollout_length = 8;
    for (const auto& [name, value] : {std::pair{"optimizer", "adam"}, {"lr", "5e-3"}}) {
      config_set(config_fields(config), name, value);
    }
  }
  if (c.algorithm == std::string("dqn")) {
    for (const auto& [name, value] : {std::pair{"learn-start", "500"},
                                      {"exploration", "0:1,4000:0.02"},
                                      {"replay-capacity", "10000"},
                                      {"train-ratio", "4"},
                                      {"dueling", "true"}}) {
      config_set(config_fields(config), name, value);
    }
  }
  const double illegal = illegal_actions_until_learnt(config);
  if (c.mask) {
    EXPECT_EQ(illegal, 0);
  }

  EvalOptions options;
  options.env = config.env;
  options.env_args = config.env_args;
  options.episodes = 20;
  for (const char* policy : {"greedy", "sample"}) {
    options.policy = policy;
    const EvalSummary eval = evaluate(*load_run(config.run).algorithm, options);
    EXPECT_GE(eval.return_mean, 3.4) << policy;
    for (const Episode& episode : eval.episodes) {
      EXPECT_TRUE(!c.mask || episode.scalars.at(0).second == 0);
    }
  }
  const auto policy = load_policy(config.run);
  EXPECT_EQ(policy->spec().parts.size(), c.mask ? 5u : 4u);
}

INSTANTIATE_TEST_SUITE_P(All, LearnsToMatch,
                         ::testing::Values(Case{"ppo", "switches", false}, Case{"impala", "several", true},
                                           Case{"ga3c", "several", true}, Case{"dqn", "one", true}),
                         [](const auto& info) { return info.param.algorithm; });

// A memory and a mask at once: what is to be done at the end was shown at the beginning, and of the three actions one
// is forbidden at every step.
class RecallsBehindAMask : public ::testing::TestWithParam<std::string> {};

TEST_P(RecallsBehindAMask, AndNeverTakesWhatIsForbidden) {
  testing::TempDir dir;
  TrainConfig config = match_config(GetParam(), "one", true, dir.file("run"));
  config.env = "Recall-v0";
  config.env_args = {{"mask", "true"}, {"length", "4"}};
  config.model = "dict_lstm";
  config.steps = 100'000;
  config.until_return = 0.95;
  for (const auto& [name, value] : {std::pair{"loss-reduction", "mean"},
                                    {"max-grad-norm", "0.5"},
                                    {"optimizer", "adam"},
                                    {"lr", "3e-3"},
                                    {"eps", "1e-5"}}) {
    config_set(config_fields(config), name, value);
  }
  EXPECT_EQ(illegal_actions_until_learnt(config), 0);

  EvalOptions options;
  options.env = config.env;
  options.env_args = config.env_args;
  options.episodes = 40;
  options.policy = "greedy";
  const EvalSummary eval = evaluate(*load_run(config.run).algorithm, options);
  EXPECT_NEAR(eval.return_mean, 1, 1e-9);
  for (const Episode& episode : eval.episodes) EXPECT_EQ(episode.scalars.at(0).second, 0);
  const auto policy = load_policy(config.run);
  const auto env = program().envs.make({.id = config.env, .args = config.env_args});
  std::vector<std::byte> obs(env->spec().observation.bytes());
  for (uint64_t episode = 0; episode < 20; ++episode) {
    env->reset(episode, obs);
    policy->reset();
    StepResult result;
    while (!result.done()) result = env->step(Action::discrete(policy->act(obs)), obs);
    EXPECT_EQ(result.reward, 1) << episode;
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, RecallsBehindAMask, ::testing::Values("impala", "a2c", "ppo", "appo", "ga3c"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace parl
