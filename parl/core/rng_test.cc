#include "parl/core/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "parl/core/check.h"

namespace parl {
namespace {

struct NumpyRecord {
  uint64_t seed;
  std::array<uint64_t, 4> sequence;  // SeedSequence(seed).generate_state(4, uint64)
  std::array<uint64_t, 3> raw;       // the first three random_raw() of PCG64
  std::array<double, 2> random;      // then two random()
  std::array<double, 2> uniform;     // then two uniform(-0.6, -0.4)
};

// Recorded with numpy 2.4 (numpy.random.Generator(PCG64(SeedSequence(seed)))).
const NumpyRecord kNumpy[] = {
    {0ull,
     {0xdb2cd7e7b0f478beull, 0xabf4641a2c71ba49ull, 0x20c6ed6d9d7b8d41ull, 0x2c4099de223c39d4ull},
     {0xa30febcfd9c2825full, 0x4510bdf882d9d721ull, 0x0a7d3da94ecde8b8ull},
     {0x1.0ec9ed84d0bc0p-6, 0x1.a064f4f059bcap-1},
     {-0x1.ab77b86b7afffp-2, -0x1.ea2936d865a84p-2}},
    {1ull,
     {0x672d8ee56d6791ffull, 0x8ae19ca14eb1072cull, 0x4915796d1322fc4aull, 0xd0cc2bdcaba049bdull},
     {0x8306bdf37922e4ffull, 0xf35196bbc152a866ull, 0x24e7a4f608ec18cdull},
     {0x1.e5b5615da558dp-1, 0x1.3f50be80ff35cp-2},
     {-0x1.07d9f37da7030p-1, -0x1.bce2f23d61a7bp-2}},
    {7ull,
     {0xead0f7017c326e58ull, 0x0879c4f0f97e037aull, 0x623a8c4b6745675full, 0xb3443fad60386cacull},
     {0xa00641a9f1e54a8bull, 0xe5afcdbcaf266a95ull, 0xc693565f940af962ull},
     {0x1.cd396d5eab510p-3, 0x1.335eca6438dd4p-2},
     {-0x1.b37f0a86f8d18p-2, -0x1.32a92c56d5bf5p-1}},
    {42ull,
     {0x9f1e2e6dcd540ab7ull, 0xd57873dc79fb94b6ull, 0x7d282a1b64d420b7ull, 0x336579714692d5ffull},
     {0xc621fbcd16d92688ull, 0x705a5661a791ffc1ull, 0xdbcd12c26eda1624ull},
     {0x1.650d6c1c2c011p-1, 0x1.81c01b5339380p-4},
     {-0x1.9e97b0db942d6p-2, -0x1.ca84c240361e4p-2}},
    {4294967295ull,
     {0x2a05c5e276c1fe08ull, 0x2032e40fc20e8198ull, 0xed4ac06d787f4396ull, 0x56896cb4f3db80fdull},
     {0x407f5fa930d8fd9full, 0x3814b22eb9684802ull, 0x498b7dcee8d8dc95ull},
     {0x1.3ceb1e066d3d0p-1, 0x1.deb9ee576a18dp-1},
     {-0x1.14e49c6f25b52p-1, -0x1.fbcf027352fb0p-2}},
    {4294967296ull,
     {0x50ff846cec53f444ull, 0x7a4918dbe8278562ull, 0x3bff9f6c362e2b19ull, 0xbdb177539a0654e3ull},
     {0xe3c5ebe285ac1625ull, 0x8ea09968fe31dbccull, 0xcd084ff84d8de9beull},
     {0x1.e9bc2dd875173p-1, 0x1.e02ce67c855d0p-5},
     {-0x1.1afe18fd2cb64p-1, -0x1.c50e5a123307dp-2}},
    {18446744073709551615ull,
     {0xaebca151928cad0dull, 0x119c30448638dc7aull, 0x1bbb155659e642a7ull, 0xa76b11e3e8c4a8f6ull},
     {0xae163a7a8c47568full, 0xd86659f5f3382359ull, 0x01e52b195bc2d24aull},
     {0x1.ca04d55e33445p-1, 0x1.081eecc4d67f8p-3},
     {-0x1.128d0a2d7a893p-1, -0x1.edacf7a359f2ep-2}},
    {1234567890123456789ull,
     {0xbc97bbb0556f5bcdull, 0xbf7907c732f6ffc8ull, 0x49c56da2313998ebull, 0x0ac3f50dbc383d76ull},
     {0x409ba21c1abbff3aull, 0x004a6911146cdec1ull, 0xf28434a412aed79full},
     {0x1.8ad3ea6421d3fp-1, 0x1.7c7c81cced7b8p-4},
     {-0x1.d356936ff0f31p-2, -0x1.1ccab1030e92ep-1}},
};

TEST(NumpyRng, EqualsNumpyBitByBit) {
  for (const NumpyRecord& record : kNumpy) {
    SCOPED_TRACE(record.seed);
    EXPECT_EQ(seed_sequence_state(record.seed), record.sequence);
    NumpyRng rng(record.seed);
    for (uint64_t raw : record.raw) EXPECT_EQ(rng.next_u64(), raw);
    for (double value : record.random) EXPECT_EQ(rng.random(), value);
    for (double value : record.uniform) EXPECT_EQ(rng.uniform(-0.6, -0.4), value);
  }
}

TEST(NumpyRng, StateGoesOnWhereItWasTaken) {
  NumpyRng rng(5);
  rng.random();
  const auto state = rng.state();
  const double expected = rng.random();
  NumpyRng other(99);
  other.set_state(state);
  EXPECT_EQ(other.random(), expected);
  EXPECT_EQ(other.state(), rng.state());
}

// Known answers of Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, KnownAnswers) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRng, DrawsTheBlocksOfPhiloxInOrder) {
  const uint64_t seed = 0x1122334455667788ull, stream = 0x99aabbccddeeff00ull;
  CounterRng rng(seed, stream);
  for (uint32_t block = 0; block < 3; ++block) {
    const auto expected = philox4x32({block, 0, 0xddeeff00u, 0x99aabbccu}, {0x55667788u, 0x11223344u});
    for (uint32_t word : expected) EXPECT_EQ(rng.next_u32(), word);
  }
  EXPECT_EQ(rng.position(), 12u);
}

TEST(CounterRng, EveryPositionCanBeReached) {
  CounterRng rng(3, 4);
  std::vector<uint32_t> words;
  for (int i = 0; i < 40; ++i) words.push_back(rng.next_u32());
  for (uint64_t p = 0; p < words.size(); ++p) {
    CounterRng other(3, 4);
    other.set_position(p);
    EXPECT_EQ(other.position(), p);
    for (uint64_t i = p; i < words.size(); ++i) ASSERT_EQ(other.next_u32(), words[i]) << p << " " << i;
  }
}

TEST(CounterRng, UniformStaysBelowOneAndIsEven) {
  CounterRng rng(0, 0);
  double sum = 0, sum_of_squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const float u = rng.uniform();
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += u;
    sum_of_squares += static_cast<double>(u) * u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(sum_of_squares / kDraws, 1.0 / 3, 0.005);
  const double d = rng.uniform_double();
  EXPECT_GE(d, 0.0);
  EXPECT_LT(d, 1.0);
}

TEST(CounterRng, BelowIsUnbiased) {
  CounterRng rng(1, 2);
  std::vector<int> seen(7);
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) ++seen.at(rng.below(7));
  for (int count : seen) EXPECT_NEAR(count, kDraws / 7, 500);  // five deviations
  EXPECT_EQ(rng.below(1), 0u);
  // Two thirds of the range of a word: without the rejection even results would come twice as often as odd ones.
  const uint32_t n = 0xAAAAAAAAu;
  int low = 0;
  for (int i = 0; i < 20000; ++i) low += rng.below(n) % 2 == 0;
  EXPECT_NEAR(low, 10000, 400);
  EXPECT_THROW(rng.below(0), Error);
}

TEST(CounterRng, StreamsAndSeedsDiffer) {
  std::set<uint32_t> words;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (uint64_t stream = 0; stream < 20; ++stream) words.insert(CounterRng(seed, stream).next_u32());
  }
  EXPECT_EQ(words.size(), 400u);
}

TEST(DeriveSeed, DiffersByIndexAndBySeed) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    for (uint64_t index = 0; index < 30; ++index) seeds.insert(derive_seed(seed, index));
  }
  EXPECT_EQ(seeds.size(), 900u);
  EXPECT_EQ(derive_seed(3, 5), derive_seed(3, 5));
}

}  // namespace
}  // namespace parl
