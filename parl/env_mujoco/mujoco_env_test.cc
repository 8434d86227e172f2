#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "parl/env/allocation_counter.h"
#include "parl/env/env_conformance.h"
#include "parl/env_mujoco/mujoco.h"
#include "parl/env_mujoco/mujoco_names.h"

namespace parl {
namespace {

const EnvRegistry& registry() {
  static const auto* made = [] {
    auto* registry = new EnvRegistry;
    register_mujoco_envs(*registry);
    return registry;
  }();
  return *made;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A file that goes away with the test.
class ModelFile {
 public:
  explicit ModelFile(const std::string& text)
      : path_(std::filesystem::path(testing::TempDir()) / fmt::format("parl_{}.xml", static_cast<const void*>(this))) {
    std::ofstream(path_) << text;
  }
  ~ModelFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~EnvironmentVariable() { unsetenv(name_); }

 private:
  const char* name_;
};

class Mujoco : public ::testing::TestWithParam<std::string> {};

TEST_P(Mujoco, KeepsTheContract) {
  const std::string id = GetParam();
  const bool big = id.starts_with("Humanoid") || id == "Ant-v5";
  check_env(
      [&] {
        return registry().make({.id = id, .args = {{"max_episode_steps", "40"}, {"width", "32"}, {"height", "32"}}});
      },
      {.steps = big ? 100 : 200, .allocations = allocations_of_this_thread});
}

INSTANTIATE_TEST_SUITE_P(Tasks, Mujoco, ::testing::ValuesIn([] {
                           std::vector<std::string> ids;
                           for (const MujocoName& name : kMujocoNames) ids.emplace_back(name.id);
                           return ids;
                         }()),
                         [](const auto& info) { return info.param.substr(0, info.param.find('-')); });

TEST(MujocoTasks, HaveGymnasiumsSpacesAndLimits) {
  struct Row {
    const char* id;
    int64_t observations, actions, limit;
    double high;
  };
  // From Gymnasium's documentation of each v5 environment.
  const Row rows[] = {
      {"HalfCheetah-v5", 17, 6, 1000, 1},
      {"Hopper-v5", 11, 3, 1000, 1},
      {"Walker2d-v5", 17, 6, 1000, 1},
      {"Ant-v5", 105, 8, 1000, 1},
      {"Humanoid-v5", 348, 17, 1000, 0.4f},
      {"HumanoidStandup-v5", 348, 17, 1000, 0.4f},
      {"Swimmer-v5", 8, 2, 1000, 1},
      {"InvertedPendulum-v5", 4, 1, 1000, 3},
      {"InvertedDoublePendulum-v5", 9, 1, 1000, 1},
      {"Reacher-v5", 10, 2, 50, 1},
      {"Pusher-v5", 23, 7, 100, 2},
  };
  ASSERT_EQ(std::size(rows), registry().names().size());
  for (const Row& row : rows) {
    const auto env = registry().make({.id = row.id});
    const EnvSpec& spec = env->spec();
    EXPECT_EQ(spec.id, row.id);
    EXPECT_EQ(spec.observation.shape, std::vector<int64_t>{row.observations}) << row.id;
    const Box& box = std::get<Box>(spec.action);
    EXPECT_EQ(box.shape, std::vector<int64_t>{row.actions}) << row.id;
    EXPECT_EQ(box.high.at(0), row.high) << row.id;
    EXPECT_EQ(box.low.at(0), -row.high) << row.id;
    EXPECT_EQ(spec.max_episode_steps, row.limit) << row.id;
    EXPECT_TRUE(contains(spec.contract, "frame_skip ")) << spec.contract;
  }
}

TEST(MujocoTasks, EpisodesCarryTheirInfoValues) {
  const auto env = registry().make({.id = "HalfCheetah-v5", .args = {{"max_episode_steps", "20"}}});
  std::vector<std::byte> obs(env->spec().observation.bytes());
  env->reset(3, obs);
  const std::vector<float> action(6, 0.5f);
  for (int i = 0; i < 20; ++i) env->step(Action::continuous(action), obs);
  std::vector<Episode> episodes;
  env->take_episodes(episodes);
  ASSERT_EQ(episodes.size(), 1u);
  std::map<std::string, double> scalars(episodes[0].scalars.begin(), episodes[0].scalars.end());
  ASSERT_EQ(scalars.size(), 4u);
  EXPECT_NEAR(scalars.at("reward_ctrl"), -20 * 0.1 * 6 * 0.25, 1e-5);  // a sum
  EXPECT_NEAR(scalars.at("reward_forward") + scalars.at("reward_ctrl"), episodes[0].raw_return, 1e-4);
  EXPECT_NEAR(scalars.at("x_velocity") * 20, scalars.at("reward_forward"), 1e-9);  // a mean
  const auto bare = make_mujoco_env("HalfCheetah-v5");
  bare->reset(3, obs);
  for (int i = 0; i < 20; ++i) bare->step(Action::continuous(action), obs);
  EXPECT_EQ(scalars.at("x_position"), bare->qpos()[0]);  // the last
}

TEST(MujocoTasks, ObservationsAreThoseOfFloat64Rounded) {
  const auto env = make_mujoco_env("Ant-v5");
  std::vector<float> obs(static_cast<size_t>(env->spec().observation.size()));
  const auto place = std::as_writable_bytes(std::span(obs));
  env->reset(1, place);
  for (int i = 0; i < 5; ++i) env->step(Action::continuous(std::vector<float>(8, 0.3f)), place);
  for (size_t i = 0; i < obs.size(); ++i) EXPECT_EQ(obs[i], static_cast<float>(env->observation()[i]));
}

TEST(MujocoOptions, AreCheckedByName) {
  const auto error = [](const std::string& id, const EnvArgs& args) {
    return message_of([&] { registry().make({.id = id, .args = args}); });
  };
  EXPECT_TRUE(contains(error("Swimmer-v5", {{"healthy_reward", "1"}}), "has no option 'healthy_reward'"));
  EXPECT_TRUE(contains(error("Hopper-v5", {{"healthy_z_rang", "1..2"}}), "did you mean 'healthy_z_range'"));
  EXPECT_TRUE(contains(error("Hopper-v5", {{"healthy_z_range", "0.7"}}), "LOW..HIGH"));
  EXPECT_TRUE(contains(error("Hopper-v5", {{"healthy_z_range", "2..1"}}), "LOW must not be above HIGH"));
  EXPECT_TRUE(contains(error("Ant-v5", {{"frame_skip", "0"}}), "'frame_skip' is '0'"));
  EXPECT_TRUE(contains(error("Ant-v5", {{"ctrl_cost_weight", "lots"}}), "'ctrl_cost_weight' is 'lots'"));
  EXPECT_TRUE(contains(error("Ant-v5", {{"ctrl_cost_weight", "nan"}}), "must be a number"));
  for (const char* id : {"HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "InvertedPendulum-v5", "InvertedDoublePendulum-v5"})
    EXPECT_TRUE(contains(error(id, {{"reset_noise_scale", "-1"}}), "must not be negative")) << id;
  EXPECT_TRUE(contains(error("Ant-v5", {{"main_body", "wing"}}), "no body 'wing'"));
  EXPECT_TRUE(contains(error("Ant-v5", {{"main_body", "14"}}), "bodies 0..13"));
  EXPECT_TRUE(contains(error("HalfCheeta-v5", {}), "HalfCheetah-v5"));
  EXPECT_TRUE(contains(message_of([] { make_mujoco_env("Ant-v4"); }), "did you mean 'Ant-v5'"));
}

TEST(MujocoOptions, TheTimeLimitCanBeChangedAndLeftOut) {
  EXPECT_EQ(registry().make({.id = "Reacher-v5", .args = {{"max_episode_steps", "7"}}})->spec().max_episode_steps, 7);
  EXPECT_EQ(registry().make({.id = "Reacher-v5", .args = {{"max_episode_steps", "0"}}})->spec().max_episode_steps, 0);
}

TEST(MujocoModels, AreFoundByNameAndByPath) {
  const std::string own = mujoco_model_file("ant.xml");
  EXPECT_EQ(mujoco_model_file(own), own);
  const auto env = make_mujoco_env("Walker2d-v5", {{"xml_file", mujoco_model_file("walker2d.xml")}});
  EXPECT_TRUE(contains(env->spec().contract, "walker2d.xml"));
  EXPECT_TRUE(contains(message_of([] { mujoco_model_file("ants.xml"); }), "did you mean 'ant.xml'"));
  EXPECT_TRUE(contains(message_of([] { mujoco_model_file("./nowhere.xml"); }), "there is no file './nowhere.xml'"));
  const EnvironmentVariable elsewhere("PARL_MUJOCO_ASSETS", "/nonexistent");
  const std::string text = message_of([] { make_mujoco_env("Ant-v5"); });
  EXPECT_TRUE(contains(text, "/nonexistent/ant.xml") && contains(text, "PARL_MUJOCO_ASSETS")) << text;
}

TEST(MujocoModels, MustFitTheTask) {
  const ModelFile broken("<mujoco><worldbody><nonsense/></worldbody></mujoco>");
  EXPECT_TRUE(contains(message_of([&] { make_mujoco_env("Ant-v5", {{"xml_file", broken.path()}}); }), "nonsense"));
  const std::string ant = mujoco_model_file("ant.xml"), pendulum = mujoco_model_file("inverted_pendulum.xml");
  EXPECT_TRUE(contains(message_of([&] { make_mujoco_env("Reacher-v5", {{"xml_file", ant}}); }), "no body 'fingertip'"));
  EXPECT_TRUE(contains(message_of([&] { make_mujoco_env("Humanoid-v5", {{"xml_file", pendulum}}); }), "at least 3"));
}

// What MuJoCo calls an error would end the process; here it is an exception, and until reset() a step is one, too. The
// error: memory for the contacts, but not for what follows from them, which some size in the row of sizes brings about.
TEST(MujocoErrors, BecomeExceptions) {
  std::string balls;
  for (int i = 0; i < 12; ++i) {
    balls += fmt::format("<body pos='0 0 {}'><freejoint/><geom size='.1' mass='1'/></body>", 0.05 + 0.01 * i);
  }
  const std::vector<float> action(1, 0.0f);
  std::string text;
  for (int memory = 16000; memory < 120000 && text.empty(); memory += 500) {
    const ModelFile crowd(
        fmt::format("<mujoco><size memory='{}'/><worldbody><geom type='plane' size='1 1 1'/>"
                    "<body pos='5 0 1'><joint name='j' type='slide'/><joint type='hinge'/>"
                    "<geom size='.1'/></body>{}</worldbody><actuator><motor joint='j'/></actuator></mujoco>",
                    memory, balls));
    const auto env = make_mujoco_env("InvertedPendulum-v5", {{"xml_file", crowd.path()}});
    std::vector<std::byte> obs(env->spec().observation.bytes());
    try {
      env->reset(0, obs);
      for (int i = 0; i < 5; ++i) env->step(Action::continuous(action), obs);
    } catch (const Error& e) {
      text = e.what();
      EXPECT_TRUE(contains(message_of([&] { env->step(Action::continuous(action), obs); }), "call reset()"));
    }
  }
  EXPECT_TRUE(contains(text, "MuJoCo: ")) << text;
}

}  // namespace
}  // namespace parl
