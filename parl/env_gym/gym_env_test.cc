// Gymnasium's environments through the bridge: equal to Gymnasium's numbers, every kind of space, pictures, many at
// once.
#include "parl/env_gym/gym_env.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "parl/core/error_of.h"
#include "parl/core/rng.h"
#include "parl/env/allocation_counter.h"
#include "parl/env/env_conformance.h"
#include "parl/env/vector_env.h"
#include "parl/env_gym/gym_test_util.h"
#include "parl/env_gym/internal/gym_spaces.h"

namespace parl {
namespace {

using testing::GymTest;
using ::testing::HasSubstr;
using testing::make_gym;

std::unique_ptr<Env> ours(const std::string& id) {
  EnvRegistry registry;
  register_builtin_envs(registry);
  return registry.make({.id = id});
}

// Bit by bit: observations, rewards, ends, and what follows a reset without a seed.
TEST_F(GymTest, CartPoleIsOurCartPole) {
  const auto env = make_gym("gym:CartPole-v1");
  const auto native = ours("CartPole-v1");
  EXPECT_EQ(env->spec().action, native->spec().action);
  EXPECT_EQ(env->spec().observation.shape, native->spec().observation.shape);
  EXPECT_EQ(env->spec().max_episode_steps, 500);
  CounterRng random(3, 0);
  float a[4], b[4];
  const auto place_a = std::as_writable_bytes(std::span(a)), place_b = std::as_writable_bytes(std::span(b));
  int64_t steps = 0;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}, uint64_t{0xFEDCBA9876543210u}}) {
    for (int episode = 0; episode < 4; ++episode) {
      const std::optional<uint64_t> given = episode == 0 ? std::optional(seed) : std::nullopt;
      env->reset(given, place_a);
      native->reset(given, place_b);
      ASSERT_EQ(0, std::memcmp(a, b, sizeof(a))) << "seed " << seed << ", episode " << episode;
      StepResult r;
      while (!r.done()) {
        // A controller that keeps one episode up until its limit.
        const bool balances = seed == 7 && episode == 1;
        const int64_t action = balances ? 0.05f * b[0] + 0.1f * b[1] + b[2] + 0.3f * b[3] > 0 : random.below(2);
        r = env->step(Action::discrete(action), place_a);
        const StepResult s = native->step(Action::discrete(action), place_b);
        ++steps;
        ASSERT_EQ(0, std::memcmp(a, b, sizeof(a))) << "seed " << seed << ", episode " << episode;
        ASSERT_EQ(r.reward, s.reward);
        ASSERT_EQ(r.terminated, s.terminated);
        ASSERT_EQ(r.truncated, s.truncated);
      }
    }
  }
  EXPECT_GT(steps, 700);
}

TEST_F(GymTest, ContinuousActionsAndOptions) {
  const auto env = make_gym("gym:Pendulum-v1", {{"g", "9.5"}});
  const auto native = ours("Pendulum-v1");
  EXPECT_THAT(env->spec().contract, HasSubstr("\"g\":9.5"));
  EXPECT_EQ(to_string(env->spec().action), "Box(f4, [1], -2..2)");
  float a[3], b[3];
  env->reset(5, std::as_writable_bytes(std::span(a)));
  native->reset(5, std::as_writable_bytes(std::span(b)));
  for (size_t i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(a[i], b[i]);
  const float torque[] = {1.25f};
  env->step(Action::continuous(torque), std::as_writable_bytes(std::span(a)));
  // theta'' = 3 g / 2 sin theta + 3 torque, a step is 0.05 s.
  const double speed = b[2] + (3 * 9.5 / 2 * b[1] + 3 * 1.25) * 0.05;
  EXPECT_NEAR(a[2], speed, 1e-5);
  EXPECT_THROW(env->step(Action::continuous({}), std::as_writable_bytes(std::span(a))), Error);
}

// Lends processes out, so that the suite's dozens of fresh environments do not start dozens of interpreters.
class Lent final : public Env {
 public:
  explicit Lent(std::vector<std::unique_ptr<GymEnv>>& pool, const std::string& id) : pool_(pool) {
    if (pool_.empty()) pool_.push_back(make_gym(id));
    env_ = std::move(pool_.back());
    pool_.pop_back();
  }
  ~Lent() override { pool_.push_back(std::move(env_)); }
  const EnvSpec& spec() const override { return env_->spec(); }
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override { env_->reset(seed, obs); }
  StepResult step(const Action& action, std::span<std::byte> obs) override { return env_->step(action, obs); }

 private:
  std::vector<std::unique_ptr<GymEnv>>& pool_;
  std::unique_ptr<GymEnv> env_;
};

TEST_F(GymTest, KeepsTheContract) {
  for (const std::string id : {"gym:CartPole-v1", "gym:ParlSpaces-v0"}) {
    std::vector<std::unique_ptr<GymEnv>> pool;
    check_env([&] { return std::make_unique<Lent>(pool, id); },
              {.steps = 60, .allocations = allocations_of_this_thread, .seeds_differ = id == "gym:CartPole-v1"});
  }
}

TEST_F(GymTest, EveryKindOfObservation) {
  const auto env = make_gym("gym:ParlSpaces-v0");
  const EnvSpec& spec = env->spec();
  std::vector<std::string> parts;
  for (const SpacePart& part : spec.parts) parts.push_back(part.name + " " + to_string(part.space));
  EXPECT_THAT(parts, ::testing::ElementsAre("camera Box(u1, [2,3,1], 0..255)", "inner/0 Discrete(5)",
                                            "inner/1 MultiDiscrete([3,4])", "inner/2 MultiBinary(3)",
                                            "wide Box(f4, [2], -inf..[1,2])", "word Box(i4, [1], 0..60000)"));
  std::vector<std::byte> obs(spec.observation.bytes());
  env->reset(1, obs);
  for (int n = 0; n <= 2; ++n) {
    const auto camera = part_of<uint8_t>(obs, spec.part("camera"));
    EXPECT_EQ(camera[5], 5 + n);
    EXPECT_EQ(part_of<int64_t>(obs, spec.part("inner/0"))[0], n % 5) << "begins at 2 in Python";
    EXPECT_THAT(part_of<int64_t>(obs, spec.part("inner/1")), ::testing::ElementsAre(n % 3, n % 4));
    EXPECT_THAT(part_of<uint8_t>(obs, spec.part("inner/2")), ::testing::ElementsAre(1, 0, n % 2));
    EXPECT_THAT(part_of<float>(obs, spec.part("wide")), ::testing::ElementsAre(-0.5f - static_cast<float>(n), 0.1f));
    EXPECT_EQ(part_of<int32_t>(obs, spec.part("word"))[0], 40000 + n);
    if (n == 2) break;
    const StepResult r = env->step(Action::discrete(2), obs);
    EXPECT_EQ(r.reward, 1.0f) << "begins at -1 in Python";
    EXPECT_EQ(r.truncated, n == 1) << "Gymnasium's own limit";
    EXPECT_FALSE(r.terminated);
  }
}

TEST_F(GymTest, NumbersWithoutAShapeHaveOne) {
  const auto env = make_gym("gym:ParlScalar-v0");
  EXPECT_EQ(to_string(Space(env->spec().observation)), "Box(f4, [1], -2..2)");
  EXPECT_EQ(to_string(env->spec().action), "Box(f4, [1], -1..1)");
  float obs[1], action[] = {0.75f};
  const auto place = std::as_writable_bytes(std::span(obs));
  env->reset(1, place);
  EXPECT_EQ(obs[0], -0.5f);
  EXPECT_EQ(env->step(Action::continuous(action), place).reward, 0.75f);
  EXPECT_EQ(obs[0], 1.5f);
}

TEST_F(GymTest, EveryKindOfAction) {
  struct Case {
    const char *name, *space;
    std::vector<int64_t> numbers;
    std::vector<float> floats;
    float reward;
  };
  const Case cases[] = {{"multi", "MultiDiscrete([3,4])", {2, 3}, {}, 2.3f},
                        {"binary", "MultiBinary(4)", {1, 0, 1, 1}, {}, 1.011f},
                        {"box", "Box(f4, [2,1], -2..2)", {}, {1.5f, -0.5f}, 1.45f},
                        {"both", "MultiDiscrete([4,2,2,2])", {3, 0, 1, 1}, {}, 1.401f},
                        {"floats", "Box(f4, [3], [-1,0,0]..[1,2,2])", {}, {-0.5f, 1.5f, 2.0f}, -0.33f}};
  for (const Case& c : cases) {
    const auto env = make_gym("gym:ParlSpaces-v0", {{"action", c.name}});
    EXPECT_EQ(to_string(env->spec().action), c.space);
    std::vector<std::byte> obs(env->spec().observation.bytes());
    env->reset(1, obs);
    const StepResult r = env->step(c.floats.empty() ? Action::multi(c.numbers) : Action::continuous(c.floats), obs);
    EXPECT_FLOAT_EQ(r.reward, c.reward) << c.name;
  }
  for (const char* name : {"mixed", "whole"}) {
    const std::string text = error_of([&] { make_gym("gym:ParlSpaces-v0", {{"action", name}}); });
    EXPECT_THAT(text, HasSubstr("as an action"));
    EXPECT_THAT(text, ::testing::Not(HasSubstr("Traceback")));
  }
}

TEST_F(GymTest, DrawsWhereTheEnvironmentCan) {
  const auto env = make_gym("gym:ParlSpaces-v0");
  std::vector<std::byte> obs(env->spec().observation.bytes());
  env->reset(1, obs);
  env->step(Action::discrete(0), obs);
  Image image;
  env->render(image);
  EXPECT_EQ(image.width, 6);
  EXPECT_EQ(image.height, 4);
  EXPECT_THAT(std::vector<uint8_t>(image.rgb.end() - 3, image.rgb.end()), ::testing::ElementsAre(10, 20, 1));
  const auto other = make_gym("gym:ParlFailing-v0");
  float one[1];
  other->reset(1, std::as_writable_bytes(std::span(one)));
  EXPECT_THROW(other->render(image), Error);
  EXPECT_NO_THROW(other->step(Action::discrete(0), std::as_writable_bytes(std::span(one))));
}

TEST_F(GymTest, AMaskFromInfoIsAPart) {
  const auto env = make_gym("gym:ParlMasked-v0", {{"action_mask", "info"}});
  const EnvSpec& spec = env->spec();
  std::vector<std::byte> obs(spec.observation.bytes());
  env->reset(1, obs);
  EXPECT_THAT(part_of<uint8_t>(obs, spec.part(kActionMask)), ::testing::ElementsAre(1, 0, 1));
  env->step(Action::discrete(0), obs);
  EXPECT_THAT(part_of<uint8_t>(obs, spec.part(kActionMask)), ::testing::ElementsAre(0, 1, 1));
  EXPECT_EQ(part_of<int64_t>(obs, spec.part("obs"))[0], 1);
}

// One thread, three processes: no step ends before all three are being made.
TEST_F(GymTest, AVectorStepsItsProcessesAtOnce) {
  std::string folder = (std::filesystem::temp_directory_path() / "parl_gym_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  {
    const EnvArgs args{{"count", "3"}, {"folder", folder}, {"timeout", "20"}};
    VectorEnv envs({.count = 3}, [&](int) { return make_gym("gym:ParlTogether-v0", args); });
    std::vector<float> obs(3);
    const auto row = [&](int i) { return std::as_writable_bytes(std::span(obs).subspan(static_cast<size_t>(i), 1)); };
    std::vector<StepResult> results(3);
    envs.reset(row);
    for (int i = 0; i < 3; ++i) envs.step(std::vector<int64_t>{0, 0, 0}, {}, row, results);
    EXPECT_EQ(results[2].reward, 1.0f);
  }
  std::filesystem::remove_all(folder);
}

// Three environments, two processes: what each gives is what one of our own gives.
TEST_F(GymTest, EnvironmentsShareProcesses) {
  GymHosts hosts;
  GymOptions options = gym_options({.id = "gym:CartPole-v1", .args = {{"python", testing::test_python()}}});
  std::vector<int> pids;
  VectorEnv envs({.count = 3, .seed = 4}, [&](int) {
    auto env = hosts.make(options, 2);
    pids.push_back(dynamic_cast<GymEnv&>(*env).pid());
    return env;
  });
  EXPECT_EQ(pids[0], pids[1]);
  EXPECT_NE(pids[1], pids[2]);
  VectorEnv native({.count = 3, .seed = 4}, [](int) { return ours("CartPole-v1"); });
  std::vector<float> a(12), b(12);
  const auto row = [](std::vector<float>& all, int i) {
    return std::as_writable_bytes(std::span(all).subspan(static_cast<size_t>(i) * 4, 4));
  };
  std::vector<StepResult> r(3), s(3);
  envs.reset([&](int i) { return row(a, i); });
  native.reset([&](int i) { return row(b, i); });
  CounterRng random(1, 0);
  for (int t = 0; t < 200; ++t) {
    const std::vector<int64_t> actions = {random.below(2), random.below(2), random.below(2)};
    envs.step(
        actions, {}, [&](int i) { return row(a, i); }, r);
    native.step(
        actions, {}, [&](int i) { return row(b, i); }, s);
    ASSERT_EQ(a, b) << "step " << t;
    for (size_t i = 0; i < 3; ++i) ASSERT_EQ(r[i].terminated, s[i].terminated);
  }
}

TEST(GymOptions, ArgumentsAreWhatTheyLookLike) {
  const GymOptions options = gym_options({.id = "gym:my_package:Maze-v0",
                                          .args = {{"continuous", "true"},
                                                   {"gravity", "-5.5"},
                                                   {"name", "deep maze"},
                                                   {"size", "[3,4]"},
                                                   {"map", "None"},
                                                   {"kwargs", R"({"depth": 2, "gravity": 1})"},
                                                   {"import", "one two.three"},
                                                   {"timeout", "2.5"},
                                                   {"start_timeout", "9"}}});
  EXPECT_EQ(options.id, "my_package:Maze-v0");
  EXPECT_EQ(options.kwargs,
            R"({"continuous":true,"depth":2,"gravity":-5.5,"map":null,"name":"deep maze","size":[3,4]})");
  EXPECT_THAT(options.imports, ::testing::ElementsAre("one", "two.three"));
  EXPECT_EQ(options.timeout, 2.5);
  EXPECT_EQ(options.start_timeout, 9);
  EXPECT_EQ(gym_options({.id = "gym:A", .args = {{"timeout", "2.5"}}}).start_timeout, 60);
  EXPECT_EQ(gym_options({.id = "gym:A", .args = {{"timeout", "90"}}}).start_timeout, 90);
  EXPECT_THROW(gym_options({.id = "gym:A", .args = {{"kwargs", "[1]"}}}), Error);
  EXPECT_THROW(gym_options({.id = "gym:A", .args = {{"action_mask", "inof"}}}), Error);
  EXPECT_THROW(gym_options({.id = "gym:", .args = {}}), Error);
}

TEST(GymOptions, TheRegistryTakesAnyName) {
  EnvRegistry registry;
  register_builtin_envs(registry);
  register_gym_envs(registry);
  EXPECT_EQ(registry.family_of("gym:Whatever-v3").prefix, "gym");
  EXPECT_THROW(registry.family_of("gim:Whatever-v3"), Error);
}

}  // namespace
}  // namespace parl
