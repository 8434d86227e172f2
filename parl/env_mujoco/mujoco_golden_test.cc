// The tasks against data recorded from Gymnasium (scripts/record_mujoco.py). With the same version of MuJoCo, and a C
// library whose functions round alike, everything is equal to the bit: positions, velocities, rewards, ends, info
// values, and observations as float32 (in float64 those with sines differ in the last bit: numpy has its own). With
// another, the first ten steps agree to 1e-6; robots that touch the floor are compared as long as the physics are
// equal, since MuJoCo's versions compute contacts differently, in Gymnasium as here. The test says which it is.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <sstream>

#include "parl/env/state_io.h"
#include "parl/env_mujoco/mujoco.h"

namespace parl {
namespace {

constexpr uint32_t kMagic = 0x474A4D50;  // "PMJG"

uint32_t crc(std::initializer_list<std::span<const std::byte>> parts) {
  uLong sum = 0;
  for (const auto part : parts) {
    sum = crc32(sum, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
  }
  return static_cast<uint32_t>(sum);
}

// As the recorder computes it.
uint32_t fingerprint_of_c_library() {
  std::vector<double> values;
  for (int i = 1; i <= 1000; ++i) {
    const double x = i * 0.0137;
    values.insert(values.end(),
                  {std::sin(x), std::cos(x), std::tan(x), std::exp(-x), std::log(x), std::log1p(-x / 15)});
    volatile double two = 2.0;
    values.insert(values.end(), {std::pow(x, two), std::pow(x, 0.3), std::atan2(x, 3.0 - x), std::acos(x / 14)});
    values.push_back(std::asin(x / 14));
  }
  return crc({std::as_bytes(std::span(values))});
}

std::string take_text(StateReader& in) {
  uint16_t length = 0;
  in.get(length);
  std::string text(length, ' ');
  for (char& c : text) in.get(c);
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

struct Golden {
  std::vector<std::byte> bytes;
  int32_t version = 0;
  uint32_t fingerprint = 0;
  std::string id;
  EnvArgs args;
  std::vector<std::string> info_names;
  uint64_t seed = 0;
  int32_t nq = 0, nv = 0, observations = 0, actions = 0, steps = 0;
  std::vector<float> scale;
  size_t body = 0;  // where the reset's state begins
};

Golden read_golden(const std::string& name) {
  Golden golden;
  std::ifstream file(std::string(PARL_SOURCE_DIR) + "/parl/env_mujoco/testdata/" + name + ".golden", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto view = std::as_bytes(std::span(bytes));
  golden.bytes.assign(view.begin(), view.end());
  StateReader in(golden.bytes);
  uint32_t magic = 0;
  in.get(magic);
  PARL_CHECK_EQ(magic, kMagic, "not a golden file of a MuJoCo task");
  in.get(golden.version);
  in.get(golden.fingerprint);
  golden.id = take_text(in);
  const std::string options = take_text(in), names = take_text(in);
  for (const std::string& option : split(options)) {
    golden.args[option.substr(0, option.find('='))] = option.substr(option.find('=') + 1);
  }
  golden.info_names = split(names);
  in.get(golden.seed);
  for (int32_t* size : {&golden.nq, &golden.nv, &golden.observations, &golden.actions, &golden.steps}) in.get(*size);
  golden.scale.resize(static_cast<size_t>(golden.actions));
  for (float& x : golden.scale) in.get(x);
  golden.body = 4 + 8 + 3 * 2 + golden.id.size() + options.size() + names.size() + 8 + 5 * 4 + 4 * golden.scale.size();
  return golden;
}

// Plays a recording; difference() is the first one, "" when there is none.
class Replay {
 public:
  explicit Replay(const Golden& golden, bool exact, const EnvArgs& changes = {})
      : golden_(golden), exact_(exact), in_(std::span(golden.bytes).subspan(golden.body)) {
    EnvArgs args = golden.args;
    for (const auto& [name, value] : changes) args[name] = value;
    const auto limit = args.find("max_episode_steps");
    limit_ = limit != args.end() ? std::stoi(limit->second) : default_limit();
    args.erase("max_episode_steps");
    env_ = make_mujoco_env(golden.id, args);
    obs_.resize(env_->spec().observation.bytes());
    order_.resize(env_->info_names().size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    const auto& names = env_->info_names();
    std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return names[a] < names[b]; });
  }

  std::string difference() {
    for (size_t i = 0; i < order_.size(); ++i) {
      if (i >= golden_.info_names.size() || env_->info_names()[order_[i]] != golden_.info_names[i]) return "info names";
    }
    if (order_.size() != golden_.info_names.size()) return "info names";
    if (static_cast<int32_t>(obs_.size() / sizeof(float)) != golden_.observations) return "observation size";
    env_->reset(golden_.seed, obs_);
    if (std::string what = compare_whole(); !what.empty()) return "after reset: " + what;
    for (int t = 1; t <= (exact_ ? golden_.steps : 10); ++t) {
      const std::string what = step(t);
      if (what.empty()) continue;
      if (!exact_ && !same_physics_ && touches_floor()) {
        compared_ = t - 1;
        return {};
      }
      return fmt::format("step {}: {}", t, what);
    }
    return {};
  }
  int compared() const { return compared_; }   // steps, when not exact
  double largest() const { return largest_; }  // relative difference of a float64

 private:
  int default_limit() const { return golden_.id == "Reacher-v5" ? 50 : golden_.id == "Pusher-v5" ? 100 : 1000; }

  bool touches_floor() const {
    const auto begins = [&](const char* name) { return golden_.id.starts_with(name); };
    return begins("Ant") || begins("HalfCheetah") || begins("Hopper") || begins("Humanoid") || begins("Walker2d");
  }

  std::string step(int t) {
    std::vector<float> action(golden_.scale);
    for (float& x : action) {
      int8_t level = 0;
      in_.get(level);
      x *= static_cast<float>(level);
    }
    const StepResult result = env_->step(Action::continuous(action), obs_);
    ++length_;
    uint32_t state = 0, observation = 0, info = 0;
    double reward = 0;
    uint8_t flags = 0;
    in_.get(state);
    in_.get(observation);
    in_.get(info);
    in_.get(reward);
    in_.get(flags);
    same_physics_ = state == state_crc();
    if (exact_) {
      if (!same_physics_) return "qpos or qvel";
      if (observation != crc({obs_})) return "observation";
      if (reward != env_->reward()) return fmt::format("reward {} instead of {}", env_->reward(), reward);
      if (info != info_crc()) return "info";
    } else if (!near(reward, env_->reward())) {
      return fmt::format("reward {} instead of {}", env_->reward(), reward);
    }
    const bool terminated = flags & 1, truncated = flags & 2;
    if (terminated != result.terminated) return "terminated";
    if (truncated != (length_ == limit_)) return "truncated";
    if (t <= 10 || t % 100 == 0) {
      if (std::string what = compare_whole(); !what.empty()) return what;
    }
    return terminated || truncated ? next_episode() : "";
  }

  std::string next_episode() {
    env_->reset({}, obs_);
    length_ = 0;
    uint32_t state = 0, observation = 0;
    in_.get(state);
    in_.get(observation);
    if (!exact_) return {};
    if (state != state_crc()) return "qpos or qvel of the next reset";
    return observation == crc({obs_}) ? "" : "observation of the next reset";
  }

  std::string compare_whole() {
    if (std::string what = compare(env_->qpos(), golden_.nq, "qpos", true); !what.empty()) return what;
    if (std::string what = compare(env_->qvel(), golden_.nv, "qvel", true); !what.empty()) return what;
    return compare(env_->observation(), golden_.observations, "observation", false);
  }
  std::string compare(std::span<const double> values, int32_t size, const char* what, bool to_the_bit) {
    if (values.size() != static_cast<size_t>(size)) return fmt::format("size of {}", what);
    for (size_t i = 0; i < values.size(); ++i) {
      double expected = 0;
      in_.get(expected);
      const double last_bit = 2e-16 * std::max(1.0, std::abs(expected));
      const bool good = !exact_      ? near(expected, values[i])
                        : to_the_bit ? expected == values[i]
                                     : std::abs(expected - values[i]) <= last_bit;
      if (!good) return fmt::format("{}[{}] is {} instead of {}", what, i, values[i], expected);
    }
    return {};
  }
  bool near(double a, double b) {
    const double difference = std::abs(a - b) / std::max(1.0, std::abs(a));
    if (!(difference <= 1e-6)) return false;
    largest_ = std::max(largest_, difference);
    return true;
  }
  uint32_t state_crc() const { return crc({std::as_bytes(env_->qpos()), std::as_bytes(env_->qvel())}); }
  uint32_t info_crc() const {
    std::vector<double> sorted;
    for (size_t i : order_) sorted.push_back(env_->info_values()[i]);
    return crc({std::as_bytes(std::span(sorted))});
  }

  const Golden& golden_;
  const bool exact_;
  StateReader in_;
  std::unique_ptr<MujocoEnv> env_;
  std::vector<std::byte> obs_;
  std::vector<size_t> order_;  // of the info values by name
  int limit_ = 0, length_ = 0, compared_ = 10;
  bool same_physics_ = true;  // of the last step, to the bit
  double largest_ = 0;
};

std::vector<std::string> recordings() {
  std::vector<std::string> names;
  for (const auto& file :
       std::filesystem::directory_iterator(std::string(PARL_SOURCE_DIR) + "/parl/env_mujoco/testdata")) {
    if (file.path().extension() == ".golden") names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool comparable(const Golden& golden) {
  return golden.version == mujoco_version() && golden.fingerprint == fingerprint_of_c_library();
}

class MujocoGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(MujocoGolden, EqualsGymnasium) {
  const Golden golden = read_golden(GetParam());
  const bool exact = comparable(golden);
  Replay replay(golden, exact);
  EXPECT_EQ(replay.difference(), "");
  if (exact) return;
  std::cout << fmt::format(
      "[   NOTE   ] recorded with MuJoCo {}, this is {}{}: {} steps compared to 1e-6, largest difference {:.1e}\n",
      golden.version, mujoco_version(),
      golden.fingerprint == fingerprint_of_c_library() ? "" : " with a C library that rounds differently",
      replay.compared(), replay.largest());
}

INSTANTIATE_TEST_SUITE_P(Recordings, MujocoGolden, ::testing::ValuesIn(recordings()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-'; }, '_');
  return name;
});

TEST(MujocoGoldenFiles, CoverEveryTaskAndOtherOptionsOfEach) {
  EnvRegistry registry;
  register_mujoco_envs(registry);
  std::map<std::string, std::pair<int, int>> seen;  // defaults, others
  for (const std::string& name : recordings()) {
    const Golden golden = read_golden(name);
    ++(golden.args.empty() ? seen[golden.id].first : seen[golden.id].second);
  }
  EXPECT_EQ(registry.names().size(), 11u);
  for (const std::string& id : registry.names()) {
    EXPECT_EQ(seen[id].first, 1) << id;
    EXPECT_GE(seen[id].second, 1) << id;
  }
}

// Each of these changes one setting of a recording, and the comparison must notice.
TEST(MujocoGoldenFiles, NoticeEverySetting) {
  const std::vector<std::pair<std::string, EnvArgs>> changes{
      {"HalfCheetah-v5", {{"ctrl_cost_weight", "0.1000001"}}},
      {"HalfCheetah-v5", {{"forward_reward_weight", "1.0000001"}}},
      {"HalfCheetah-v5", {{"reset_noise_scale", "0.1000001"}}},
      {"HalfCheetah-v5", {{"frame_skip", "4"}}},
      {"Hopper-v5", {{"healthy_z_range", "0.7..1.25"}}},
      {"Hopper-v5", {{"healthy_angle_range", "-0.15..0.2"}}},
      {"Hopper-v5-options", {{"healthy_state_range", "-3..4"}}},
      {"Walker2d-v5", {{"terminate_when_unhealthy", "false"}}},
      {"Walker2d-v5", {{"xml_file", "walker2d.xml"}}},
      {"Ant-v5", {{"contact_force_range", "-1..0.9"}}},
      {"Ant-v5", {{"contact_cost_weight", "0.0006"}}},
      {"Ant-v5", {{"main_body", "3"}}},
      {"Humanoid-v5", {{"contact_cost_weight", "6e-7"}}},
      {"Humanoid-v5-options", {{"contact_cost_range", "0.2..3"}}},
      {"HumanoidStandup-v5-options", {{"impact_cost_range", "0.6..3"}}},
      {"InvertedDoublePendulum-v5", {{"healthy_reward", "9"}}},
      {"Reacher-v5", {{"reward_control_weight", "1.01"}}},
      {"Pusher-v5", {{"reward_near_weight", "0.51"}}},
  };
  for (const auto& [name, change] : changes) {
    const Golden golden = read_golden(name);
    if (!comparable(golden)) GTEST_SKIP() << "another MuJoCo or C library than the recording's";
    EXPECT_NE(Replay(golden, true, change).difference(), "") << name << " " << change.begin()->first;
  }
}

}  // namespace
}  // namespace parl
