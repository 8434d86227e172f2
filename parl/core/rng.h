// Random numbers that are the same on every machine, for every number of threads.
//
// NumpyRng: numpy's default_rng(seed): SeedSequence -> PCG64 (XSL-RR, 128 bits of state) -> random() and uniform(), bit
//   for bit. Environments draw from it so that reset(seed) gives Gymnasium's start states.
//   (O'Neill 2014, "PCG", HMC-CS-2014-0905; SeedSequence: numpy.random.SeedSequence.)
// CounterRng: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). The key is the seed,
//   the counter is (position, stream), so that every stream of every seed is independent of the others and a position
//   is all the state there is. Action samplers and environments take stream = their global index: how they are split
//   over actors and threads then changes nothing.
// Values: copy freely; a copy goes on from the same place. Thread rule: one owner thread per object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace parl {

class NumpyRng {
 public:
  explicit NumpyRng(uint64_t seed = 0);

  uint64_t next_u64();
  double random();                          // [0, 1), 53 bits: Generator.random()
  double uniform(double low, double high);  // [low, high): Generator.uniform(low, high)

  // The generator's whole state: {state high, state low, increment high, increment low}.
  using State = std::array<uint64_t, 4>;
  State state() const;
  void set_state(const State& state);

 private:
  using Word128 = unsigned __int128;
  Word128 state_ = 0, increment_ = 0;
};

// numpy's SeedSequence(seed).generate_state(4, uint64).
std::array<uint64_t, 4> seed_sequence_state(uint64_t seed);

// One block of Philox4x32 with ten rounds.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

class CounterRng {
 public:
  CounterRng(uint64_t seed, uint64_t stream);

  uint32_t next_u32();
  float uniform();             // [0, 1), 24 bits; one word
  double uniform_double();     // [0, 1), 53 bits; two words
  uint32_t below(uint32_t n);  // 0..n-1, unbiased; n > 0; nearly always one word

  // Words drawn so far. set_position(p) goes to any place of the stream in constant time.
  uint64_t position() const { return position_; }
  void set_position(uint64_t position);

  uint64_t seed() const { return seed_; }
  uint64_t stream() const { return stream_; }

 private:
  void fill();

  uint64_t seed_, stream_, position_ = 0;
  std::array<uint32_t, 4> block_{};
};

// A seed for the thing numbered `index` in a run with `seed`: 64 well mixed bits, taken from a place of
// CounterRng(seed, index) that drawing never reaches.
uint64_t derive_seed(uint64_t seed, uint64_t index);

}  // namespace parl
