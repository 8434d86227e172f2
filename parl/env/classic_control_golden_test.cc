// The classic control tasks against episodes recorded from Gymnasium (scripts/record_classic_control.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "parl/env/classic_control.h"
#include "parl/env/registry.h"
#include "parl/env/state_io.h"

namespace parl {
namespace {

struct GoldenStep {
  std::vector<double> state;  // before the step
  int64_t index = 0;
  std::vector<float> values;
  double reward = 0;
  bool terminated = false, truncated = false;
  std::vector<float> obs;  // after the step; empty where it was not recorded
  Action action() const { return {index, values}; }
};

struct GoldenEpisode {
  uint64_t seed = 0;
  std::vector<float> first_obs;
  std::vector<GoldenStep> steps;
  std::vector<double> last_state;
  const std::vector<double>& state_after(size_t t) const {
    return t + 1 < steps.size() ? steps[t + 1].state : last_state;
  }
};

std::vector<GoldenEpisode> read_golden(const std::string& id) {
  std::ifstream file(std::string(PARL_SOURCE_DIR) + "/parl/env/testdata/" + id + ".golden", std::ios::binary);
  PARL_CHECK(file.good(), "no golden data for {}", id);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  StateReader in(std::as_bytes(std::span(bytes)));
  uint32_t magic = 0;
  int32_t state_size = 0, obs_size = 0, action_size = 0, count = 0;
  in.get(magic);
  in.get(state_size);
  in.get(obs_size);
  in.get(action_size);
  in.get(count);
  PARL_CHECK_EQ(magic, 0x444C4750u, "not a golden file");
  const auto numbers = [&](auto& out, int32_t size) {
    out.resize(static_cast<size_t>(size));
    for (auto& x : out) in.get(x);
  };
  std::vector<GoldenEpisode> episodes(static_cast<size_t>(count));
  for (GoldenEpisode& episode : episodes) {
    int32_t steps = 0;
    in.get(episode.seed);
    in.get(steps);
    numbers(episode.first_obs, obs_size);
    episode.steps.resize(static_cast<size_t>(steps));
    for (size_t t = 0; t < episode.steps.size(); ++t) {
      GoldenStep& step = episode.steps[t];
      numbers(step.state, state_size);
      if (action_size == 0) {
        int32_t index = 0;
        in.get(index);
        step.index = index;
      } else {
        numbers(step.values, action_size);
      }
      uint8_t flags = 0;
      in.get(step.reward);
      in.get(flags);
      step.terminated = flags & 1;
      step.truncated = flags & 2;
      if (t + 1 == episode.steps.size() || (t + 1) % 10 == 0) numbers(step.obs, obs_size);
    }
    numbers(episode.last_state, state_size);
  }
  in.finish();
  return episodes;
}

struct Task {
  std::string id;
  int64_t limit;
  size_t free_run;  // steps; Acrobot is chaotic
  std::function<std::unique_ptr<ClassicControl>()> make;
};

void PrintTo(const Task& task, std::ostream* os) { *os << task.id; }

class GoldenTest : public testing::TestWithParam<Task> {
 protected:
  void SetUp() override {
    episodes_ = read_golden(GetParam().id);
    env_ = GetParam().make();
    obs_.resize(static_cast<size_t>(env_->spec().observation.size()));
  }
  std::span<std::byte> obs() { return std::as_writable_bytes(std::span(obs_)); }

  // Gymnasium's state; MountainCarContinuous has one more number here: whether the episode has moved. Pendulum has one
  // too, the latest torque, which the physics do not read.
  void set_state(const std::vector<double>& state, size_t t) {
    std::vector<double> full = state;
    if (env_->state().size() > full.size()) full.push_back(t > 0 ? 1 : 0);
    env_->set_state(full);
  }
  void expect_state(const std::vector<double>& expected, double tolerance, size_t t) {
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(env_->state()[i], expected[i], tolerance * (std::abs(expected[i]) + 1e-3)) << "step " << t;
    }
  }
  void expect_obs(const std::vector<float>& expected, double tolerance) {
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(obs_[i], expected[i], tolerance * std::max(1.0f, std::abs(expected[i])));
    }
  }

  std::vector<GoldenEpisode> episodes_;
  std::unique_ptr<ClassicControl> env_;
  std::vector<float> obs_;
};

TEST_P(GoldenTest, StartStatesAreEqualToTheBit) {
  ASSERT_EQ(episodes_.size(), 20u);
  for (const GoldenEpisode& episode : episodes_) {
    env_->reset(episode.seed, obs());
    const auto& expected = episode.steps[0].state;
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(env_->state()[i], expected[i]) << "seed " << episode.seed;
    expect_obs(episode.first_obs, 2e-7);
  }
}

TEST_P(GoldenTest, OneStepFromEveryRecordedState) {
  for (const GoldenEpisode& episode : episodes_) {
    for (size_t t = 0; t < episode.steps.size(); ++t) {
      const GoldenStep& step = episode.steps[t];
      set_state(step.state, t);
      const StepResult result = env_->step(step.action(), obs());
      expect_state(episode.state_after(t), 1e-9, t);
      ASSERT_EQ(result.terminated, step.terminated) << "step " << t;
      ASSERT_NEAR(result.reward, step.reward, 1e-6 * std::max(1.0, std::abs(step.reward)));
      if (!step.obs.empty()) expect_obs(step.obs, 2e-7);
    }
  }
}

TEST_P(GoldenTest, FreeRunFromTheSeed) {
  for (const GoldenEpisode& episode : episodes_) {
    env_->reset(episode.seed, obs());
    for (size_t t = 0; t < std::min(GetParam().free_run, episode.steps.size()); ++t) {
      const StepResult result = env_->step(episode.steps[t].action(), obs());
      expect_state(episode.state_after(t), 1e-6, t);
      ASSERT_EQ(result.terminated, episode.steps[t].terminated) << "step " << t;
    }
  }
}

TEST_P(GoldenTest, RegisteredLimitTruncatesWhereGymnasiumDoes) {
  EnvRegistry registry;
  register_builtin_envs(registry);
  const auto env = registry.make({.id = GetParam().id, .args = {}, .mode = EnvMode::kTraining});
  EXPECT_EQ(env->spec().max_episode_steps, GetParam().limit);
  int truncated = 0, terminated = 0;
  for (const GoldenEpisode& episode : episodes_) {
    env->reset(episode.seed, obs());
    for (size_t t = 0; t < episode.steps.size(); ++t) {
      const StepResult result = env->step(episode.steps[t].action(), obs());
      ASSERT_EQ(result.terminated, episode.steps[t].terminated) << "seed " << episode.seed << " step " << t;
      ASSERT_EQ(result.truncated, episode.steps[t].truncated) << "seed " << episode.seed << " step " << t;
    }
    const bool cut = episode.steps.back().truncated;
    if (cut) {
      EXPECT_EQ(static_cast<int64_t>(episode.steps.size()), GetParam().limit);
    }
    ++(cut ? truncated : terminated);
  }
  EXPECT_GT(truncated, 0);
  EXPECT_EQ(terminated > 0, GetParam().id != "Pendulum-v1");  // which never terminates
  std::vector<Episode> recorded;
  env->take_episodes(recorded);
  EXPECT_EQ(recorded.size(), episodes_.size());
}

INSTANTIATE_TEST_SUITE_P(Classic, GoldenTest,
                         testing::Values(Task{"CartPole-v1", 500, 200, [] { return std::make_unique<CartPole>(); }},
                                         Task{"Acrobot-v1", 500, 50, [] { return std::make_unique<Acrobot>(); }},
                                         Task{"MountainCar-v0", 200, 200,
                                              [] { return std::make_unique<MountainCar>(); }},
                                         Task{"MountainCarContinuous-v0", 999, 200,
                                              [] { return std::make_unique<MountainCarContinuous>(); }},
                                         Task{"Pendulum-v1", 200, 200, [] { return std::make_unique<Pendulum>(); }}),
                         [](const auto& info) { return info.param.id.substr(0, info.param.id.find('-')); });

}  // namespace
}  // namespace parl
