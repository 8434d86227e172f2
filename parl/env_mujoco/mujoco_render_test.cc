// Pictures, where this machine has OpenGL without a window; else the error says what to install, and the rest is
// skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "parl/env_mujoco/mujoco.h"

namespace parl {
namespace {

class Started {
 public:
  explicit Started(const std::string& id, EnvArgs args = {{"width", "96"}, {"height", "64"}})
      : env_(make_mujoco_env(id, args)), obs_(env_->spec().observation.bytes()) {
    env_->reset(1, obs_);
  }
  Image picture() {
    Image image;
    env_->render(image);
    return image;
  }
  void step(float value, int times) {
    const std::vector<float> action(static_cast<size_t>(std::get<Box>(env_->spec().action).size()), value);
    for (int i = 0; i < times; ++i) env_->step(Action::continuous(action), obs_);
  }

 private:
  std::unique_ptr<MujocoEnv> env_;
  std::vector<std::byte> obs_;
};

// Empty where pictures can be made, else the reason.
std::string why_not() {
  try {
    Started("InvertedPendulum-v5").picture();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

int colors(const Image& image) {
  std::vector<bool> seen(1 << 12);
  for (size_t i = 0; i + 2 < image.rgb.size(); i += 3) {
    seen[static_cast<size_t>(image.rgb[i] >> 4 << 8 | image.rgb[i + 1] >> 4 << 4 | image.rgb[i + 2] >> 4)] = true;
  }
  return static_cast<int>(std::count(seen.begin(), seen.end(), true));
}

double difference(const Image& a, const Image& b) {
  double sum = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) sum += std::abs(a.rgb[i] - b.rgb[i]);
  return sum / static_cast<double>(a.rgb.size());
}

TEST(MujocoPictures, SayWhatIsMissing) {
  setenv("MUJOCO_GL", "glfw", 1);
  const std::string wrong = why_not();
  unsetenv("MUJOCO_GL");
  EXPECT_NE(wrong.find("egl or osmesa"), std::string::npos) << wrong;
  if (const std::string reason = why_not(); !reason.empty()) {
    EXPECT_NE(reason.find("libosmesa6"), std::string::npos) << reason;
    GTEST_SKIP() << reason;
  }
}

TEST(MujocoPictures, ShowTheTask) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  Started cheetah("HalfCheetah-v5");
  const Image first = cheetah.picture();
  EXPECT_EQ(first.width, 96);
  EXPECT_EQ(first.height, 64);
  ASSERT_EQ(first.rgb.size(), 96u * 64 * 3);
  EXPECT_GT(colors(first), 10);
  EXPECT_LT(difference(first, cheetah.picture()), 0.01);  // drawing alone changes nothing
  cheetah.step(1, 20);
  EXPECT_GT(difference(first, cheetah.picture()), 1);
  // The sky is above the floor: the lowest row comes last.
  const auto brightness = [&](size_t row) {
    double sum = 0;
    for (size_t i = row * 96 * 3; i < (row + 1) * 96 * 3; ++i) sum += first.rgb[i];
    return sum;
  };
  EXPECT_NE(brightness(0), brightness(63));
}

TEST(MujocoPictures, CamerasCanBeChosen) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  const EnvArgs size{{"width", "96"}, {"height", "64"}};
  const auto with = [&](EnvArgs more) {
    more.insert(size.begin(), size.end());
    return Started("Ant-v5", more).picture();
  };
  const Image track = with({}), free = with({{"camera_id", "-1"}});
  EXPECT_GT(difference(track, free), 1);
  EXPECT_LT(difference(track, with({{"camera_id", "0"}})), 0.01);
  EXPECT_GT(difference(free, with({{"camera_id", "-1"}, {"default_camera_config", "distance:9/lookat:0:0:1"}})), 1);
  EXPECT_THROW(with({{"camera_id", "5"}}), Error);
  EXPECT_THROW(with({{"default_camera_config", "zoom:3"}}), Error);
}

TEST(MujocoPictures, OfTwoEnvironmentsAndFromAnotherThread) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  Started a("Hopper-v5"), b("Swimmer-v5");
  const Image first = a.picture(), other = b.picture();
  EXPECT_GT(difference(first, other), 1);
  Image again;
  std::thread([&] { again = a.picture(); }).join();
  EXPECT_LT(difference(first, again), 0.01);
}

}  // namespace
}  // namespace parl
