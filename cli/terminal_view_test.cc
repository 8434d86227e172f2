#include "cli/terminal_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "cli/command.h"

namespace parl::cli {
namespace {

Image picture_of(int width, int height, const std::function<std::array<uint8_t, 3>(int, int)>& colour) {
  Image out;
  out.width = width;
  out.height = height;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (uint8_t c : colour(x, y)) out.rgb.push_back(c);
    }
  }
  return out;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(PictureText, ShowsTwoPixelsInACell) {
  const Image p = picture_of(2, 2, [](int x, int y) {
    return std::array<uint8_t, 3>{static_cast<uint8_t>(100 * x), static_cast<uint8_t>(50 * y), 7};
  });
  EXPECT_EQ(picture_text(p, 2, 1),
            "\033[38;2;0;0;7m\033[48;2;0;50;7m\u2580\033[38;2;100;0;7m\033[48;2;100;50;7m\u2580\033[0m\n");
}

TEST(PictureText, KeepsProportionsAndFits) {
  const Image atari = picture_of(160, 210, [](int, int) { return std::array<uint8_t, 3>{9, 9, 9}; });
  const std::string small = picture_text(atari, 80, 23);
  EXPECT_EQ(count(small, "\n"), 23u);
  EXPECT_EQ(count(small, "\u2580"), 23u * 35u);  // 46 pixels high, 160 * 46 / 210 wide
  EXPECT_EQ(count(small, "\033[38"), 23u);       // one colour: said once a line
  const Image tiny = picture_of(10, 10, [](int, int) { return std::array<uint8_t, 3>{1, 2, 3}; });
  const std::string large = picture_text(tiny, 200, 26);
  EXPECT_EQ(count(large, "\n"), 25u);  // five times as large: 50 pixels
  EXPECT_EQ(count(large, "\u2580"), 25u * 50u);
  EXPECT_EQ(picture_text({}, 80, 24), "");
}

TEST(PictureText, AveragesWhatItShrinks) {
  const Image stripes = picture_of(4, 4, [](int x, int) {
    const auto v = static_cast<uint8_t>(x % 2 == 0 ? 0 : 200);
    return std::array<uint8_t, 3>{v, v, v};
  });
  EXPECT_EQ(picture_text(stripes, 2, 1), "\033[38;2;100;100;100m\033[48;2;100;100;100m\u2580\u2580\033[0m\n");
}

TEST(TerminalView, WantsATerminal) {
  std::FILE* file = std::tmpfile();
  EXPECT_THROW(TerminalView{file}, UsageError);
  std::fclose(file);
}

}  // namespace
}  // namespace parl::cli
