#include "parl/core/normal.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace parl {
namespace {

struct NormalRecord {
  uint64_t seed;
  std::array<double, 4> first;
  uint64_t checksum;  // of the next 300,000: the sum of (i + 1) * the bits of draw i, modulo 2^64
  double largest;     // of their absolute values: the tail is in it
  double after;       // then one random()
};

// Recorded with numpy 2.4 (Generator(PCG64(SeedSequence(seed))).standard_normal).
const NormalRecord kNumpy[] = {
    {0ull,
     {0x1.017ed89db8441p-3, -0x1.0e8cfe9bd45ccp-3, 0x1.47e57a468b06dp-1, 0x1.adabbec84d4f0p-4},
     0xa4214e127c625efeull,
     4.731957688635529,
     0x1.1f91950d89ad7p-1},
    {1ull,
     {0x1.61e0d28bbb3a1p-2, 0x1.a4ab22204681fp-1, 0x1.525e18ce5fc0ap-2, -0x1.4d9bb65b49607p+0},
     0xce474be0e2d1a3f9ull,
     4.406353522522504,
     0x1.e48b879d39c7ep-2},
    {7ull,
     {0x1.427a31c1ffc58p-10, 0x1.31ea59a5b303ep-2, -0x1.18b7980d81558p-2, -0x1.c7fba74b18102p-1},
     0x95294c0bbff6852ull,
     4.522829666849905,
     0x1.b6161b300c348p-2},
    {1099511627779ull,
     {-0x1.6af1479d918a1p-3, -0x1.1124e594ee0c4p+0, 0x1.3fb2aa99c8e49p+0, -0x1.232836e4aa235p-1},
     0x510a57465efeb00eull,
     4.688993736789119,
     0x1.e7004082b1040p-6},
};

TEST(StandardNormal, EqualsNumpyBitByBit) {
  for (const NormalRecord& record : kNumpy) {
    SCOPED_TRACE(record.seed);
    NumpyRng rng(record.seed);
    for (double value : record.first) EXPECT_EQ(standard_normal(rng), value);
    uint64_t checksum = 0;
    double largest = 0;
    for (uint64_t i = 1; i <= 300'000; ++i) {
      const double value = standard_normal(rng);
      checksum += i * std::bit_cast<uint64_t>(value);
      largest = std::max(largest, std::abs(value));
    }
    EXPECT_EQ(checksum, record.checksum);
    EXPECT_EQ(largest, record.largest);
    EXPECT_EQ(rng.random(), record.after);
  }
}

}  // namespace
}  // namespace parl
