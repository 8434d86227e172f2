#include "parl/env/space.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "parl/core/check.h"

namespace parl {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Box, SizeAndBytes) {
  const Box image{DType::kU8, {84, 84, 4}, {0.0}, {255.0}};
  EXPECT_EQ(image.size(), 84 * 84 * 4);
  EXPECT_EQ(image.bytes(), 84u * 84u * 4u);
  EXPECT_EQ((Box{DType::kF64, {3, 2}, {0.0}, {1.0}}).bytes(), 48u);
  EXPECT_EQ((Box{DType::kF32, {}, {0.0}, {1.0}}).size(), 1);  // a scalar
}

TEST(Box, ContainsChecksEveryElement) {
  const Box box{DType::kF32, {3}, {-1, -kInf, 0}, {1, kInf, 2}};
  float values[3] = {0.5f, 1e30f, 2.0f};
  EXPECT_TRUE(box.contains(values));
  for (size_t i : {0u, 2u}) {
    float outside[3] = {0.5f, 1e30f, 2.0f};
    outside[i] = 2.5f;
    EXPECT_FALSE(box.contains(outside)) << i;
  }
  values[1] = std::nanf("");
  EXPECT_FALSE(box.contains(values)) << "NaN is never inside, not even where there are no bounds";
}

TEST(Box, BoundsOfFloatsAreRoundedLikeTheValues) {
  const Box box{DType::kF32, {1}, {-0.1}, {0.1}};
  const float just_at = 0.1f;  // a little above the double 0.1
  EXPECT_TRUE(box.contains(&just_at));
  const float above = std::nextafter(0.1f, 1.0f);
  EXPECT_FALSE(box.contains(&above));
}

TEST(Box, ContainsReadsTheElementType) {
  const int16_t numbers[2] = {-300, 300};
  EXPECT_TRUE((Box{DType::kI16, {2}, {-300.0}, {300.0}}).contains(numbers));
  EXPECT_FALSE((Box{DType::kI16, {2}, {-300.0}, {299.0}}).contains(numbers));
  const uint8_t pixels[2] = {0, 255};
  EXPECT_TRUE((Box{DType::kU8, {2}, {0.0}, {255.0}}).contains(pixels));
  EXPECT_FALSE((Box{DType::kU8, {2}, {0.0}, {254.0}}).contains(pixels));
  const double values[1] = {3.0};
  EXPECT_FALSE((Box{DType::kF64, {1}, {0.0}, {2.0}}).contains(values));
}

TEST(Box, WrongNumberOfBoundsIsAnError) {
  const float values[3] = {};
  EXPECT_THROW((Box{DType::kF32, {3}, {0.0, 0.0}, {1.0}}).contains(values), Error);
}

TEST(Box, Bounded) {
  EXPECT_TRUE((Box{DType::kF32, {2}, {0, 1}, {5, 6}}).bounded());
  EXPECT_FALSE((Box{DType::kF32, {2}, {0, -kInf}, {5, 6}}).bounded());
  EXPECT_FALSE((Box{DType::kF32, {2}, {0, 1}, {kInf, 6}}).bounded());
}

TEST(Space, Text) {
  EXPECT_EQ(to_string(Space(Discrete{6})), "Discrete(6)");
  EXPECT_EQ(to_string(Space(Box{DType::kU8, {84, 84, 4}, {0.0}, {255.0}})), "Box(u1, [84,84,4], 0..255)");
  EXPECT_EQ(to_string(Space(Box{DType::kF32, {2}, {-1, -2}, {1, 2}})), "Box(f4, [2], [-1,-2]..[1,2])");
}

}  // namespace
}  // namespace parl
