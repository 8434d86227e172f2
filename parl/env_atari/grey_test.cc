#include "parl/env_atari/grey.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "parl/core/check.h"

namespace parl {
namespace {

std::vector<uint8_t> noise(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> out(count);
  for (uint8_t& v : out) v = static_cast<uint8_t>(random());
  return out;
}

TEST(Grey, MaximumOfTwoFramesThroughTheTable) {
  std::array<uint8_t, 256> table;
  const auto values = noise(256, 1);
  std::copy(values.begin(), values.end(), table.begin());
  const size_t count = 210 * 160 + 13;  // not a multiple of any vector
  auto a = noise(count, 2), b = noise(count, 3);
  for (size_t i = 0; i < count / 2; ++i) b[i] = a[i];  // equal halves take another path
  std::vector<uint8_t> out(count);
  grey_max(a.data(), b.data(), table, out.data(), count);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], std::max(table[a[i]], table[b[i]])) << i;
  grey(a.data(), table, out.data(), count);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], table[a[i]]) << i;
}

// Area interpolation by its definition, in double, cell by cell.
double area_mean(const std::vector<uint8_t>& in, int height, int width, int size, int row, int column) {
  const double top = double(row) * height / size, bottom = double(row + 1) * height / size;
  const double left = double(column) * width / size, right = double(column + 1) * width / size;
  double sum = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double h = std::min(bottom, y + 1.0) - std::max(top, double(y));
      const double w = std::min(right, x + 1.0) - std::max(left, double(x));
      if (h > 0 && w > 0) sum += h * w * in[size_t(y) * width + x];
    }
  }
  return sum / ((bottom - top) * (right - left));
}

TEST(AreaResize, EqualsTheDefinitionForManySizes) {
  struct Case {
    int height, width, size;
  };
  for (const Case c : {Case{210, 160, 84},
                       {210, 160, 42},
                       {250, 160, 84},
                       {214, 160, 84},
                       {210, 160, 160},
                       {210, 160, 61},
                       {210, 160, 8},
                       {210, 160, 83}}) {
    const auto in = noise(size_t(c.height) * c.width, 7);
    std::vector<uint8_t> out(size_t(c.size) * c.size);
    AreaResize(c.height, c.width, c.size)(in.data(), out.data());
    for (int row = 0; row < c.size; row += 1 + c.size / 21) {
      for (int column = 0; column < c.size; column += 1 + c.size / 50) {
        const double mean = area_mean(in, c.height, c.width, c.size, row, column);
        ASSERT_LE(std::abs(out[size_t(row) * c.size + column] - mean), 0.5 + 1e-6)
            << c.height << "x" << c.width << " to " << c.size << " at " << row << ", " << column;
      }
    }
  }
}

TEST(AreaResize, ConstantPicturesStayAndGrowingIsRefused) {
  const std::vector<uint8_t> in(210 * 160, 255);
  std::vector<uint8_t> out(84 * 84);
  AreaResize resize(210, 160, 84);
  resize(in.data(), out.data());
  EXPECT_EQ(out, std::vector<uint8_t>(84 * 84, 255));
  EXPECT_THROW(AreaResize(210, 160, 161), Error);
}

}  // namespace
}  // namespace parl
