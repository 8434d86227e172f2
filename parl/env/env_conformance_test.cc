// Every environment of this room passes check_env, and every check of it catches an environment made to fail it.
#include "parl/env/env_conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "parl/env/allocation_counter.h"
#include "parl/env/dummy_env.h"
#include "parl/env/match_env.h"
#include "parl/env/registry.h"
#include "parl/env/wrappers.h"

namespace parl {
namespace {

ConformanceOptions with_allocations(ConformanceOptions options = {}) {
  options.allocations = allocations_of_this_thread;
  return options;
}

TEST(Conformance, DummyEnv) {
  check_env([] { return std::make_unique<DummyEnv>(); }, with_allocations());
}

TEST(Conformance, MatchEnv) {
  for (const auto actions : {MatchEnv::Actions::kOne, MatchEnv::Actions::kSeveral, MatchEnv::Actions::kSwitches}) {
    for (const bool mask : {false, true}) {
      check_env([&] { return std::make_unique<MatchEnv>(actions, mask); }, with_allocations());
    }
  }
}

// A Dict with what a Dict's environment may get wrong.
class WrongMatch : public Env {
 public:
  explicit WrongMatch(std::string fault) : fault_(std::move(fault)), spec_(inner_.spec()) {
    if (fault_ == "layout") spec_.parts[1].offset = 1;
  }
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override {
    inner_.reset(seed, obs);
    spoil(obs);
  }
  StepResult step(const Action& action, std::span<std::byte> obs) override {
    if (fault_ == "any action") {
      const int64_t numbers[] = {0, 0};
      const StepResult result = inner_.step(Action::multi(numbers), obs);
      return result;
    }
    const StepResult result = inner_.step(action, obs);
    spoil(obs);
    return result;
  }

 private:
  void spoil(std::span<std::byte> obs) {
    if (fault_ == "outside") part_of<int64_t>(obs, spec_.part("goal"))[0] = 3;
    if (fault_ == "padding") obs[spec_.part("arm/1").offset + 2] = static_cast<std::byte>(++count_);
  }
  const std::string fault_;
  MatchEnv inner_{MatchEnv::Actions::kSeveral};
  EnvSpec spec_;
  int count_ = 0;
};

TEST(Conformance, NoticesWhatADictGetsWrong) {
  const auto problems = [](const std::string& fault) {
    const auto found = conformance_problems([&] { return std::make_unique<WrongMatch>(fault); });
    return fmt::format("{}", fmt::join(found, "\n"));
  };
  EXPECT_THAT(problems("outside"), testing::HasSubstr("the part 'goal' of the observation is outside Discrete(3)"));
  EXPECT_THAT(problems("layout"), testing::HasSubstr("the part 'arm/0' lies at byte 1"));
  EXPECT_THAT(problems("padding"), testing::HasSubstr("two runs"));
  EXPECT_THAT(problems("any action"), testing::HasSubstr("an action of 3 numbers is not an error"));
  EXPECT_THAT(problems("any action"), testing::HasSubstr("an action with 2 as its last number is not an error"));
}

class BuiltinEnvs : public testing::TestWithParam<std::string> {};

TEST_P(BuiltinEnvs, KeepTheContract) {
  EnvRegistry registry;
  register_builtin_envs(registry);
  check_env([&] { return registry.make({.id = GetParam(), .args = {}, .mode = EnvMode::kTraining}); },
            with_allocations({.steps = 2500}));
}

TEST_P(BuiltinEnvs, KeepTheContractWithAShortLimit) {
  EnvRegistry registry;
  register_builtin_envs(registry);
  check_env(
      [&] {
        return registry.make({.id = GetParam(), .args = {{"max_episode_steps", "7"}}, .mode = EnvMode::kTraining});
      },
      with_allocations());
}

std::vector<std::string> builtin_names() {
  EnvRegistry registry;
  register_builtin_envs(registry);
  return registry.names();
}

INSTANTIATE_TEST_SUITE_P(All, BuiltinEnvs, testing::ValuesIn(builtin_names()),
                         [](const auto& info) { return info.param.substr(0, info.param.find('-')); });

TEST(Conformance, EveryWrapper) {
  const auto dummy = [] { return std::make_unique<DummyEnv>(); };
  const auto changed = with_allocations({.raw_rewards = false});
  check_env([&] { return std::make_unique<TimeLimit>(dummy(), 5); }, with_allocations());
  check_env([&] { return std::make_unique<FrameSkip>(dummy(), 2); }, with_allocations());
  check_env([&] { return std::make_unique<EpisodeStatistics>(dummy()); }, with_allocations());
  check_env([&] { return RewardClip::sign(dummy()); }, changed);
  check_env([&] { return RewardClip::range(dummy(), -0.5f, 0.5f); }, changed);
  check_env([&] { return std::make_unique<ScaleObservation>(dummy()); }, with_allocations());
  check_env([&] { return std::make_unique<FrameStack>(dummy(), 4); }, with_allocations());
  check_env(
      [&]() -> std::unique_ptr<Env> {
        std::unique_ptr<Env> env = std::make_unique<FrameSkip>(dummy(), 2);
        env = RewardClip::sign(std::make_unique<TimeLimit>(std::move(env), 9));
        return std::make_unique<FrameStack>(std::make_unique<ScaleObservation>(std::move(env)), 3);
      },
      changed);
}

enum class Fault {
  kNone,
  kEmptyContract,
  kWrongBounds,
  kNoActions,
  kIgnoresSeedZero,
  kIgnoresSeeds,
  kSharedRandomness,
  kKeepsOldState,
  kUnwrittenByte,
  kWritesOutside,
  kOutOfBounds,
  kObservesNan,
  kRewardNan,
  kSilentEnd,
  kBeyondLimit,
  kNeverEnds,
  kStepBeforeReset,
  kStepAfterEnd,
  kTakesAnyAction,
  kAllocatesInStep,
  kAllocatesInReset,
  kDrawingDisturbs,
  kWrongPicture,
  kForgetsRng,
  kForgetsEnd,
  kLoadsHalf,
  kSavesUnasked,
  kRecordsTwice,
  kRecordsNothing,
  kKeepsReturn,
  kWrongLength,
  kWrongTruncated,
};

CounterRng shared_random(5, 0);

// A random walk on the cells 0..8 that ends at both sides, truncates after 12 steps, and makes one mistake.
class FaultyEnv final : public Env {
 public:
  explicit FaultyEnv(Fault fault) : fault_(fault) {
    spec_.id = "Faulty";
    spec_.observation = Box{DType::kF32, {2}, {0.0}, {8.0}};
    spec_.action = Discrete{is(Fault::kNoActions) ? 0 : 2};
    spec_.max_episode_steps = is(Fault::kNeverEnds) ? 0 : 12;
    if (!is(Fault::kEmptyContract)) spec_.contract = "none";
    if (is(Fault::kWrongBounds)) spec_.observation.low = {0.0, 0.0, 0.0};
  }
  const EnvSpec& spec() const override { return spec_; }

  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override {
    if (is(Fault::kIgnoresSeeds)) seed.reset();
    if (is(Fault::kIgnoresSeedZero) && seed == 0u) seed.reset();
    if (seed) rng_ = CounterRng(*seed, 0);
    if (is(Fault::kAllocatesInReset)) waste_ = std::make_unique<int>(1);
    const int kept = is(Fault::kKeepsOldState) && running_ ? 1 : 0;
    cell_ = 3 + static_cast<int>(rng_.below(3)) + kept;
    steps_ = 0;
    running_ = true;
    if (!is(Fault::kKeepsReturn)) raw_return_ = 0;
    write(obs);
  }

  StepResult step(const Action& action, std::span<std::byte> obs) override {
    const bool lenient = is(Fault::kStepAfterEnd) || (is(Fault::kStepBeforeReset) && steps_ == 0);
    PARL_CHECK(running_ || lenient, "not running");
    PARL_CHECK(is(Fault::kTakesAnyAction) || (action.index >= 0 && action.index < 2), "no such action");
    if (is(Fault::kAllocatesInStep)) waste_ = std::make_unique<int>(1);
    const int slip = is(Fault::kSharedRandomness) ? shared_random.below(5) == 0 : 0;
    cell_ += slip ? 0 : (action.index == 1 ? 1 : -1);
    cell_ = std::clamp(cell_, 0, 8);
    ++steps_;
    StepResult result;
    const bool at_end = cell_ == 0 || cell_ == 8;
    result.terminated = at_end && !is(Fault::kSilentEnd) && !is(Fault::kNeverEnds);
    result.truncated = steps_ == 12 && !is(Fault::kBeyondLimit) && !is(Fault::kNeverEnds);
    result.reward = is(Fault::kRewardNan) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(cell_);
    raw_return_ += result.reward;
    running_ = !result.done() && !(is(Fault::kSilentEnd) && at_end);
    if (result.done() && !is(Fault::kRecordsNothing)) record(result);
    write(obs);
    return result;
  }

  bool records_episodes() const override { return true; }
  void take_episodes(std::vector<Episode>& out) override {
    out.insert(out.end(), episodes_.begin(), episodes_.end());
    episodes_.clear();
  }

  void render(Image& out) override {
    if (is(Fault::kDrawingDisturbs)) rng_.next_u32();
    out.width = out.height = 2;
    out.rgb.assign(is(Fault::kWrongPicture) ? 4 : 12, 0);
  }

  bool can_save_state() const override { return !is(Fault::kSavesUnasked); }
  std::vector<std::byte> save_state() const override {
    StateWriter out;
    out.put(is(Fault::kForgetsRng) ? CounterRng(1, 1) : rng_);
    out.put(cell_);
    out.put(steps_);
    out.put(raw_return_);
    out.put(is(Fault::kForgetsEnd) ? true : running_);
    return out.take();
  }
  void load_state(std::span<const std::byte> state) override {
    std::vector<std::byte> padded(state.begin(), state.end());
    if (is(Fault::kLoadsHalf)) padded.resize(save_state().size());
    StateReader in(padded);
    in.get(rng_);
    in.get(cell_);
    in.get(steps_);
    in.get(raw_return_);
    in.get(running_);
  }

 private:
  bool is(Fault fault) const { return fault_ == fault; }

  void record(const StepResult& result) {
    Episode episode{raw_return_, steps_, !result.terminated, {}};
    if (is(Fault::kWrongLength)) ++episode.length;
    if (is(Fault::kWrongTruncated)) episode.truncated = false;
    episodes_.push_back(episode);
    if (is(Fault::kRecordsTwice)) episodes_.push_back(episode);
  }

  void write(std::span<std::byte> obs) {
    float values[2] = {static_cast<float>(cell_), static_cast<float>(8 - cell_)};
    if (is(Fault::kOutOfBounds) && cell_ == 2) values[1] = 9;
    if (is(Fault::kObservesNan) && cell_ == 2) values[1] = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(obs.data(), values, is(Fault::kUnwrittenByte) ? 7 : 8);
    if (is(Fault::kWritesOutside)) *(obs.data() + obs.size()) = std::byte{0};
  }

  const Fault fault_;
  EnvSpec spec_;
  CounterRng rng_{0, 0};
  int cell_ = 4, steps_ = 0;
  double raw_return_ = 0;
  bool running_ = false;
  std::vector<Episode> episodes_;
  std::unique_ptr<int> waste_;
};

TEST(Conformance, TheSameWithoutAFaultPasses) {
  check_env([] { return std::make_unique<FaultyEnv>(Fault::kNone); }, with_allocations());
}

struct FaultCase {
  Fault fault;
  const char* expected;  // part of one of the sentences
};

void PrintTo(const FaultCase& c, std::ostream* os) { *os << c.expected; }

class CatchesFault : public testing::TestWithParam<FaultCase> {};

TEST_P(CatchesFault, ByName) {
  const EnvFactory factory = [] { return std::make_unique<FaultyEnv>(GetParam().fault); };
  EXPECT_THAT(conformance_problems(factory, with_allocations()),
              testing::Contains(testing::HasSubstr(GetParam().expected)));
  EXPECT_THROW(check_env(factory, with_allocations()), Error);
}

INSTANTIATE_TEST_SUITE_P(
    All, CatchesFault,
    testing::Values(
        FaultCase{Fault::kEmptyContract, "contract is empty"},
        FaultCase{Fault::kWrongBounds, "3 bounds for 2 elements"}, FaultCase{Fault::kNoActions, "there are 0 actions"},
        FaultCase{Fault::kIgnoresSeedZero, "seed 0: two runs"}, FaultCase{Fault::kIgnoresSeeds, "seed 1: two runs"},
        FaultCase{Fault::kSharedRandomness, "seed 0: two runs"}, FaultCase{Fault::kKeepsOldState, "seed 1: two runs"},
        FaultCase{Fault::kUnwrittenByte, "bytes left unwritten"},
        FaultCase{Fault::kWritesOutside, "outside the observation's place"},
        FaultCase{Fault::kOutOfBounds, "the observation is outside"},
        FaultCase{Fault::kObservesNan, "the observation is outside"}, FaultCase{Fault::kRewardNan, "the reward is nan"},
        FaultCase{Fault::kSilentEnd, "ends of episodes: an unexpected error"},
        FaultCase{Fault::kBeyondLimit, "beyond max_episode_steps"}, FaultCase{Fault::kNeverEnds, "no episode ended"},
        FaultCase{Fault::kStepBeforeReset, "before the first reset() is not an error"},
        FaultCase{Fault::kStepAfterEnd, "is not an error"},
        FaultCase{Fault::kTakesAnyAction, "action -1 is not an error"},
        FaultCase{Fault::kAllocatesInStep, "step() allocated"},
        FaultCase{Fault::kAllocatesInReset, "reset() allocated"},
        FaultCase{Fault::kDrawingDisturbs, "one without render()"},
        FaultCase{Fault::kWrongPicture, "render() gave 4 bytes"}, FaultCase{Fault::kForgetsRng, "two futures"},
        FaultCase{Fault::kForgetsEnd, "the saved end of an episode is forgotten"},
        FaultCase{Fault::kLoadsHalf, "half a state is loaded"},
        FaultCase{Fault::kSavesUnasked, "can_save_state() is false"},
        FaultCase{Fault::kRecordsTwice, "episodes were recorded"},
        FaultCase{Fault::kRecordsNothing, "0 episodes were recorded"},
        FaultCase{Fault::kKeepsReturn, "is recorded with return"},
        FaultCase{Fault::kWrongLength, "is recorded with length"},
        FaultCase{Fault::kWrongTruncated, "with truncated = false"}),
    [](const auto& info) { return "Fault" + std::to_string(static_cast<int>(info.param.fault)); });

TEST(Conformance, ContinuousActionsMustBeChecked) {
  struct Careless final : EnvWrapper {  // takes any number of values
    Careless() : EnvWrapper(std::make_unique<DummyEnv>()) {
      mutable_spec().action = Box{DType::kF32, {3}, {-1.0}, {1.0}};
    }
    StepResult step(const Action& action, std::span<std::byte> obs) override {
      return inner().step(Action::discrete(!action.values.empty() && action.values[0] > 0), obs);
    }
  };
  const auto problems = conformance_problems([] { return std::make_unique<Careless>(); });
  EXPECT_THAT(problems, testing::Contains(testing::HasSubstr("an action of 4 values is not an error")));
  EXPECT_THAT(problems, testing::Contains(testing::HasSubstr("an action without values is not an error")));
  EXPECT_THAT(problems, testing::Contains(testing::HasSubstr("not a number is not an error")));
}

}  // namespace
}  // namespace parl
