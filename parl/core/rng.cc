// Built with -ffp-contract=off: a fused multiply-add in uniform() would change the last bit.
#include "parl/core/rng.h"

#include "parl/core/check.h"

namespace parl {
namespace {

uint32_t low_word(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high_word(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

// numpy's pool of four words that every bit of the seed has touched.
class SeedPool {
 public:
  explicit SeedPool(uint64_t seed) {
    const std::array<uint32_t, 4> entropy{low_word(seed), high_word(seed), 0, 0};
    for (size_t i = 0; i < pool_.size(); ++i) pool_[i] = hash(entropy[i]);
    for (size_t from = 0; from < pool_.size(); ++from) {
      for (size_t to = 0; to < pool_.size(); ++to) {
        if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
      }
    }
  }
  const std::array<uint32_t, 4>& words() const { return pool_; }

 private:
  uint32_t hash(uint32_t value) {
    value ^= constant_;
    constant_ *= 0x931e8875u;
    value *= constant_;
    return value ^ (value >> 16);
  }
  static uint32_t mix(uint32_t x, uint32_t y) {
    const uint32_t result = 0xca01f9ddu * x - 0x4973f715u * y;
    return result ^ (result >> 16);
  }

  uint32_t constant_ = 0x43b0d7e5u;
  std::array<uint32_t, 4> pool_{};
};

using Word128 = unsigned __int128;

Word128 join(uint64_t high, uint64_t low) { return (static_cast<Word128>(high) << 64) | low; }

constexpr uint64_t kPcgHigh = 2549297995355413924ull, kPcgLow = 4865540595714422341ull;

constexpr double kInv53 = 1.0 / 9007199254740992.0;  // 2^-53
constexpr float kInv24 = 1.0f / 16777216.0f;         // 2^-24

}  // namespace

std::array<uint64_t, 4> seed_sequence_state(uint64_t seed) {
  const SeedPool pool(seed);
  uint32_t constant = 0x8b51f9ddu;
  std::array<uint32_t, 8> words{};
  for (size_t i = 0; i < words.size(); ++i) {
    uint32_t value = pool.words()[i % 4] ^ constant;
    constant *= 0x58f38dedu;
    value *= constant;
    words[i] = value ^ (value >> 16);
  }
  std::array<uint64_t, 4> state{};
  for (size_t i = 0; i < state.size(); ++i) state[i] = words[2 * i] | (static_cast<uint64_t>(words[2 * i + 1]) << 32);
  return state;
}

NumpyRng::NumpyRng(uint64_t seed) {
  const auto words = seed_sequence_state(seed);
  increment_ = (join(words[2], words[3]) << 1) | 1u;
  next_u64();
  state_ += join(words[0], words[1]);
  next_u64();
}

uint64_t NumpyRng::next_u64() {
  state_ = state_ * join(kPcgHigh, kPcgLow) + increment_;
  const uint64_t folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  const unsigned turn = static_cast<unsigned>(state_ >> 122);
  return (folded >> turn) | (folded << ((64 - turn) & 63));
}

double NumpyRng::random() { return static_cast<double>(next_u64() >> 11) * kInv53; }

double NumpyRng::uniform(double low, double high) { return low + (high - low) * random(); }

NumpyRng::State NumpyRng::state() const {
  return {static_cast<uint64_t>(state_ >> 64), static_cast<uint64_t>(state_), static_cast<uint64_t>(increment_ >> 64),
          static_cast<uint64_t>(increment_)};
}

void NumpyRng::set_state(const State& state) {
  state_ = join(state[0], state[1]);
  increment_ = join(state[2], state[3]);
}

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = 0xD2511F53ull * counter[0];
    const uint64_t b = 0xCD9E8D57ull * counter[2];
    counter = {high_word(b) ^ counter[1] ^ key[0], low_word(b), high_word(a) ^ counter[3] ^ key[1], low_word(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

CounterRng::CounterRng(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

void CounterRng::fill() {
  const uint64_t block = position_ / 4;
  block_ = philox4x32({low_word(block), high_word(block), low_word(stream_), high_word(stream_)},
                      {low_word(seed_), high_word(seed_)});
}

uint32_t CounterRng::next_u32() {
  if (position_ % 4 == 0) fill();
  return block_[position_++ % 4];
}

float CounterRng::uniform() { return static_cast<float>(next_u32() >> 8) * kInv24; }

double CounterRng::uniform_double() {
  const uint64_t low = next_u32();
  const uint64_t high = next_u32();
  return static_cast<double>(((high << 32) | low) >> 11) * kInv53;
}

uint32_t CounterRng::below(uint32_t n) {
  PARL_CHECK_GT(n, 0u, "there is no number below 0");
  // The high word of a product; the few low words that would favour small results are drawn again (Lemire 2019).
  const uint32_t unfair = (0u - n) % n;
  uint64_t product = 0;
  do {
    product = static_cast<uint64_t>(next_u32()) * n;
  } while (low_word(product) < unfair);
  return high_word(product);
}

void CounterRng::set_position(uint64_t position) {
  position_ = position;
  if (position_ % 4 != 0) fill();
}

uint64_t derive_seed(uint64_t seed, uint64_t index) {
  const auto block =
      philox4x32({0xFFFFFFFFu, 0xFFFFFFFFu, low_word(index), high_word(index)}, {low_word(seed), high_word(seed)});
  return block[0] | (static_cast<uint64_t>(block[1]) << 32);
}

}  // namespace parl
