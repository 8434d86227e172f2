#include "cli/video.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "parl/core/check.h"
#include "parl/core/files.h"

namespace parl::cli {
namespace {

Image picture(int width, int height, int step, bool many_colours = false) {
  Image image{width, height, std::vector<uint8_t>(static_cast<size_t>(3 * width * height))};
  for (int i = 0; i < width * height; ++i) {
    const int x = i % width, y = i / width;
    auto* p = &image.rgb[static_cast<size_t>(3 * i)];
    if (many_colours) {
      p[0] = static_cast<uint8_t>(x * 3), p[1] = static_cast<uint8_t>(y * 5),
      p[2] = static_cast<uint8_t>((x * y + step) % 256);
    } else if (std::abs(x - step) < 4 && y > 10 && y < 20) {
      p[0] = 236, p[1] = 236, p[2] = 236;
    } else {
      p[0] = 144, p[1] = static_cast<uint8_t>(72 + 8 * (y / 9 % 4)), p[2] = 17;
    }
  }
  return image;
}

class Films : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  // Paths of films of each kind that this build can write.
  std::vector<std::string> one_of_each_kind() const {
#ifdef PARL_HAVE_FFMPEG
    return {folder_ + "/a.gif", folder_ + "/a.mp4"};
#else
    return {folder_ + "/a.gif"};
#endif
  }
  const std::string folder_ = testing::TempDir() + "parl_video_" + std::to_string(::getpid());
};

// Pillow decodes what we wrote, picture by picture; exact colours.
TEST_F(Films, GifIsReadBackExactlyByPillow) {
  if (std::strlen(PARL_PYTHON) == 0) GTEST_SKIP() << "no Python with Pillow (cmake -DPARL_PYTHON=...)";
  const std::string path = folder_ + "/a.gif";
  auto video = open_video(path);
  std::string raw;
  for (int step = 0; step < 25; ++step) {
    const Image image = picture(160, 210, step == 7 ? 6 : step * 6);  // one picture equal to the one before
    video->add(image, 15);
    raw.append(image.rgb.begin(), image.rgb.end());
  }
  video->finish();
  write_file_atomically(folder_ + "/raw", raw);
  write_file_atomically(folder_ + "/check.py", R"(
import sys
from PIL import Image, ImageSequence
im = Image.open(sys.argv[1] + "/a.gif")
raw, size, total = open(sys.argv[1] + "/raw", "rb").read(), 160 * 210 * 3, 0
assert im.n_frames == 25, im.n_frames
for i, frame in enumerate(ImageSequence.Iterator(im)):  # one object: looked at while it holds this picture
    total += frame.info["duration"]
    assert frame.convert("RGB").tobytes() == raw[i * size:(i + 1) * size], f"picture {i} differs"
assert abs(total - 25 / 15 * 1000) <= 10, total
)");
  EXPECT_EQ(std::system((std::string(PARL_PYTHON) + " " + folder_ + "/check.py " + folder_).c_str()), 0);
}

TEST_F(Films, GifWithManyColoursStaysCloseToThem) {
  if (std::strlen(PARL_PYTHON) == 0) GTEST_SKIP() << "no Python with Pillow (cmake -DPARL_PYTHON=...)";
  auto video = open_video(folder_ + "/a.gif");
  const Image image = picture(83, 47, 3, true);
  video->add(image, 30);
  video->finish();
  write_file_atomically(folder_ + "/raw", std::string(image.rgb.begin(), image.rgb.end()));
  write_file_atomically(folder_ + "/check.py", R"(
import sys
from PIL import Image
got = Image.open(sys.argv[1] + "/a.gif").convert("RGB").tobytes()
raw = open(sys.argv[1] + "/raw", "rb").read()
assert len(got) == len(raw) and max(abs(a - b) for a, b in zip(got, raw)) <= 26
)");
  EXPECT_EQ(std::system((std::string(PARL_PYTHON) + " " + folder_ + "/check.py " + folder_).c_str()), 0);
}

TEST_F(Films, Mp4HasItsBoxesAndGrowsWithThePictures) {
#ifndef PARL_HAVE_FFMPEG
  GTEST_SKIP() << "no FFmpeg";
#endif
  auto video = open_video(folder_ + "/a.mp4");
  for (int step = 0; step < 60; ++step) video->add(picture(161, 210, step * 2), 15);
  video->finish();
  const std::string bytes = read_file(folder_ + "/a.mp4");
  EXPECT_EQ(bytes.substr(4, 4), "ftyp");
  EXPECT_NE(bytes.find("moov"), std::string::npos);
  EXPECT_GT(bytes.size(), 2000U);
}

TEST_F(Films, WrongNamesAndPlacesAreErrors) {
  EXPECT_THAT([&] { open_video(folder_ + "/a.avi"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(".gif or .mp4")));
  EXPECT_THAT([&] { open_video(folder_ + "/none/a.gif"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("No such file")));
  EXPECT_THROW(open_video(folder_ + "/none/a.mp4"), Error);
  auto video = open_video(folder_ + "/a.gif");
  EXPECT_THAT([&] { video->finish(); }, testing::ThrowsMessage<Error>(testing::HasSubstr("no pictures")));
}

TEST_F(Films, OneThatIsNotFinishedLeavesWhatWasThere) {
  for (const std::string& path : one_of_each_kind()) {
    write_file_atomically(path, "an earlier film");
    {
      auto video = open_video(path);
      video->add(picture(160, 210, 3), 15);
    }
    EXPECT_EQ(read_file(path), "an earlier film");
    EXPECT_FALSE(std::filesystem::exists(path + ".part"));
    auto video = open_video(path);
    video->add(picture(160, 210, 3), 15);
    video->finish();
    video.reset();
    EXPECT_NE(read_file(path), "an earlier film");
    EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  }
}

// /dev/full through the name that a film has while it grows.
TEST_F(Films, AFullDiskIsCalledSo) {
  for (const std::string& path : one_of_each_kind()) {
    std::filesystem::create_symlink("/dev/full", path + ".part");
    EXPECT_THAT(
        [&] {
          auto video = open_video(path);
          for (int step = 0; step < 40; ++step) video->add(picture(160, 210, step, true), 15);
          video->finish();
        },
        testing::ThrowsMessage<Error>(testing::HasSubstr("the disk is full")));
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

}  // namespace
}  // namespace parl::cli
