#include "parl/core/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace parl {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
constexpr size_t kSlices = 8;
using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

// tables[k][b]: what byte b does to the checksum when k bytes follow it.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t sum = b;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ (sum & 1 ? kPolynomial : 0);
    tables[0][b] = sum;
  }
  for (size_t k = 1; k < kSlices; ++k)
    for (size_t b = 0; b < 256; ++b) tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xff];
  return tables;
}

constexpr Tables kTables = make_tables();
static_assert(std::endian::native == std::endian::little);

}  // namespace

uint32_t crc32c(const void* data, size_t bytes, uint32_t before) {
  const auto* at = static_cast<const unsigned char*>(data);
  uint32_t sum = ~before;
  for (; bytes >= kSlices; bytes -= kSlices, at += kSlices) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    word ^= sum;
    sum = 0;
    for (size_t k = 0; k < kSlices; ++k) sum ^= kTables[kSlices - 1 - k][(word >> (8 * k)) & 0xff];
  }
  for (; bytes > 0; --bytes, ++at) sum = (sum >> 8) ^ kTables[0][(sum ^ *at) & 0xff];
  return ~sum;
}

}  // namespace parl
