#include "parl/core/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace parl {
namespace {

// RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(Crc32c, EqualsThePublishedValues) {
  std::vector<unsigned char> bytes(32, 0);
  EXPECT_EQ(crc32c(bytes.data(), bytes.size()), 0x8a9136aau);
  bytes.assign(32, 0xff);
  EXPECT_EQ(crc32c(bytes.data(), bytes.size()), 0x62a8ab43u);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  EXPECT_EQ(crc32c(bytes.data(), bytes.size()), 0x46dd794eu);
  const std::string digits = "123456789";
  EXPECT_EQ(crc32c(digits.data(), digits.size()), 0xe3069283u);
  EXPECT_EQ(crc32c(nullptr, 0), 0u);
}

TEST(Crc32c, GoesOnWhereItWas) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 37);
  const uint32_t whole = crc32c(text.data(), text.size());
  for (size_t cut : {size_t{1}, size_t{7}, size_t{8}, size_t{500}, text.size()})
    EXPECT_EQ(crc32c(text.data() + cut, text.size() - cut, crc32c(text.data(), cut)), whole) << cut;
  text[517] ^= 1;
  EXPECT_NE(crc32c(text.data(), text.size()), whole);
}

}  // namespace
}  // namespace parl
