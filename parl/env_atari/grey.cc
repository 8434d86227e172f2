#include "parl/env_atari/grey.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "parl/core/check.h"

namespace parl {
namespace {

constexpr int kLanes = 16;

#ifdef __AVX512VBMI__
struct VectorTable {
  __m512i low0, low1, high0, high1;
  explicit VectorTable(const std::array<uint8_t, 256>& t)
      : low0(_mm512_loadu_si512(t.data())),
        low1(_mm512_loadu_si512(t.data() + 64)),
        high0(_mm512_loadu_si512(t.data() + 128)),
        high1(_mm512_loadu_si512(t.data() + 192)) {}
  __m512i operator()(__m512i index) const {
    const __m512i low = _mm512_permutex2var_epi8(low0, index, low1);
    const __m512i high = _mm512_permutex2var_epi8(high0, index, high1);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high);
  }
};
#endif

}  // namespace

void grey_max(const uint8_t* a, const uint8_t* b, const std::array<uint8_t, 256>& table, uint8_t* out, size_t count) {
  size_t i = 0;
#ifdef __AVX512VBMI__
  const VectorTable lookup(table);
  for (; i + 64 <= count; i += 64) {
    const __m512i x = lookup(_mm512_loadu_si512(a + i)), y = lookup(_mm512_loadu_si512(b + i));
    _mm512_storeu_si512(out + i, _mm512_max_epu8(x, y));
  }
#else
  constexpr size_t kBlock = 32;  // most blocks are equal in both frames: one look-up instead of two
  for (; i + kBlock <= count; i += kBlock) {
    for (size_t k = i; k < i + kBlock; ++k) out[k] = table[a[k]];
    if (std::memcmp(a + i, b + i, kBlock) == 0) continue;
    for (size_t k = i; k < i + kBlock; ++k) out[k] = std::max(out[k], table[b[k]]);
  }
#endif
  for (; i < count; ++i) out[i] = std::max(table[a[i]], table[b[i]]);
}

void grey(const uint8_t* a, const std::array<uint8_t, 256>& table, uint8_t* out, size_t count) {
  grey_max(a, a, table, out, count);
}

// Cell i of `to` covers [i * from, (i + 1) * from) where cell j of `from` covers [j * to, (j + 1) * to): whole numbers.
std::vector<AreaResize::Span> AreaResize::spans(int from, int to) {
  const int common = std::gcd(from, to);
  std::vector<Span> all(to);
  for (int i = 0; i < to; ++i) {
    const int begin = i * from, end = begin + from;
    all[i].first = begin / to;
    for (int j = all[i].first; j * to < end; ++j) {
      all[i].weights.push_back((std::min(end, (j + 1) * to) - std::max(begin, j * to)) / common);
    }
  }
  return all;
}

AreaResize::AreaResize(int height, int width, int size) : width_(width), size_(size) {
  PARL_CHECK(size > 0 && size <= height && size <= width, "cannot shrink {}x{} to {}x{}", height, width, size, size);
  rows_ = spans(height, size);
  const std::vector<Span> columns = spans(width, size);
  const auto total = [](const Span& s) { return std::accumulate(s.weights.begin(), s.weights.end(), 0); };
  PARL_CHECK_LE(total(rows_[0]) * 255, 65535, "frames of {} rows are too high", height);
  total_ = static_cast<float>(total(rows_[0]) * total(columns[0]));
  for (const Span& c : columns) taps_ = std::max(taps_, static_cast<int>(c.weights.size()));
  padded_ = (size + kLanes - 1) / kLanes * kLanes;
  first_column_.assign(padded_, columns.back().first);
  weights_.assign(static_cast<size_t>(taps_) * padded_, 0.0F);
  for (int i = 0; i < size; ++i) {
    first_column_[i] = columns[i].first;
    for (size_t k = 0; k < columns[i].weights.size(); ++k) {
      weights_[k * padded_ + i] = static_cast<float>(columns[i].weights[k]);
    }
  }
  row_sums_.assign(width, 0);
  sums_.assign(width + taps_ + 2 * kLanes, 0.0F);
}

void AreaResize::operator()(const uint8_t* in, uint8_t* out) {
  for (const Span& rows : rows_) {
    add_rows(in, rows);
    squeeze(out);
    out += size_;
  }
}

void AreaResize::add_rows(const uint8_t* in, const Span& rows) {
  const uint8_t* row = in + static_cast<size_t>(rows.first) * width_;
  uint16_t* sums = row_sums_.data();
  const int width = width_;
  const size_t count = rows.weights.size();
  if (count == 3) {  // 210 rows to 84
    const uint16_t w0 = rows.weights[0], w1 = rows.weights[1], w2 = rows.weights[2];
    for (int x = 0; x < width; ++x) sums[x] = w0 * row[x] + w1 * row[width + x] + w2 * row[2 * width + x];
  } else {
    std::fill(sums, sums + width, uint16_t{0});
    for (size_t k = 0; k < count; ++k, row += width) {
      const uint16_t weight = rows.weights[k];
      for (int x = 0; x < width; ++x) sums[x] += weight * row[x];
    }
  }
  for (int x = 0; x < width; ++x) sums_[x] = static_cast<float>(sums[x]);
}

// Every sum is a whole number below 2^24, so float is exact up to the division, which is rounded once.
void AreaResize::squeeze(uint8_t* out) const {
  const float* sums = sums_.data();
#if defined(__AVX512F__)
  for (int i = 0; i < size_; i += 16) {
    const __m512i first = _mm512_loadu_si512(&first_column_[i]);
    const int base = first_column_[i], reach = first_column_[i + 15] - base;
    __m512 sum = _mm512_setzero_ps();
    if (reach < 32) {
      const __m512i lane = _mm512_sub_epi32(first, _mm512_set1_epi32(base));
      for (int k = 0; k < taps_; ++k) {
        const float* from = sums + base + k;
        const __m512 v = _mm512_permutex2var_ps(_mm512_loadu_ps(from), lane, _mm512_loadu_ps(from + 16));
        sum = _mm512_fmadd_ps(v, _mm512_loadu_ps(&weights_[k * padded_ + i]), sum);
      }
    } else {
      for (int k = 0; k < taps_; ++k) {
        sum =
            _mm512_fmadd_ps(_mm512_i32gather_ps(first, sums + k, 4), _mm512_loadu_ps(&weights_[k * padded_ + i]), sum);
      }
    }
    const __m512i rounded = _mm512_cvtps_epi32(_mm512_div_ps(sum, _mm512_set1_ps(total_)));
    const int left = std::min(16, size_ - i);
    _mm512_mask_cvtepi32_storeu_epi8(out + i, static_cast<__mmask16>((1U << left) - 1), rounded);
  }
#elif defined(__AVX2__)
  for (int i = 0; i < size_; i += 8) {
    const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&first_column_[i]));
    __m256 sum = _mm256_setzero_ps();
    for (int k = 0; k < taps_; ++k) {
      const __m256 v = _mm256_i32gather_ps(sums + k, first, 4);
      sum = _mm256_add_ps(sum, _mm256_mul_ps(v, _mm256_loadu_ps(&weights_[k * padded_ + i])));
    }
    alignas(32) int32_t rounded[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(rounded),
                       _mm256_cvtps_epi32(_mm256_div_ps(sum, _mm256_set1_ps(total_))));
    for (int k = 0; k < std::min(8, size_ - i); ++k) out[i + k] = static_cast<uint8_t>(rounded[k]);
  }
#else
  for (int i = 0; i < size_; ++i) {
    float sum = 0;
    for (int k = 0; k < taps_; ++k) sum += sums[first_column_[i] + k] * weights_[k * padded_ + i];
    out[i] = static_cast<uint8_t>(std::nearbyint(sum / total_));
  }
#endif
}

}  // namespace parl
