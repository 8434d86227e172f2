#include "parl/models/internal/dense_kernels.h"

#ifdef PARL_HAS_DENSE_KERNELS

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

namespace parl::internal {
namespace {

constexpr int kLanes = 16;
constexpr int kAccumulators = 24;  // the other 8 registers hold vectors of b and a broadcast

#define PARL_UNROLL _Pragma("GCC unroll 24")

// P rows from `row`, V vectors from `column`; `last` says which lanes of the last vector there are.
template <int P, int V>
void tile(const DenseProduct& product, int row, int column, __mmask16 last) {
  const auto lanes = [last](int v) { return v == V - 1 ? last : static_cast<__mmask16>(0xffff); };
  __m512 acc[P][V];
  PARL_UNROLL for (int v = 0; v < V; ++v) {
    const __m512 start =
        product.bias ? _mm512_maskz_loadu_ps(lanes(v), product.bias + column + v * kLanes) : _mm512_setzero_ps();
    PARL_UNROLL for (int p = 0; p < P; ++p) acc[p][v] = start;
  }
  const ptrdiff_t a_row = product.a_row, a_step = product.a_step, b_row = product.b_row;
  const float* __restrict a = product.a + row * a_row;
  const float* __restrict b = product.b + column;
  for (int k = product.depth; k > 0; --k, a += a_step, b += b_row) {
    __m512 w[V];
    PARL_UNROLL for (int v = 0; v < V; ++v) {
      w[v] = v == V - 1 ? _mm512_maskz_loadu_ps(last, b + v * kLanes) : _mm512_loadu_ps(b + v * kLanes);
    }
    PARL_UNROLL for (int p = 0; p < P; ++p) {
      const __m512 x = _mm512_set1_ps(a[p * a_row]);
      PARL_UNROLL for (int v = 0; v < V; ++v) acc[p][v] = _mm512_fmadd_ps(x, w[v], acc[p][v]);
    }
  }
  PARL_UNROLL for (int p = 0; p < P; ++p) {
    PARL_UNROLL for (int v = 0; v < V; ++v) {
      const ptrdiff_t at = (row + p) * product.c_row + column + v * kLanes;
      __m512 x = acc[p][v];
      if (product.relu) x = _mm512_maskz_max_ps(0xffff, _mm512_setzero_ps(), x);  // NaN stays NaN
      if (product.mask) {
        const __m512 active = _mm512_maskz_loadu_ps(lanes(v), product.mask + at);
        x = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(active, _mm512_setzero_ps(), _CMP_GT_OQ), x);
      }
      if (product.add) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(lanes(v), product.c + at));
      _mm512_mask_storeu_ps(product.c + at, lanes(v), x);
    }
  }
}

using TileFunction = void (*)(const DenseProduct&, int, int, __mmask16);
template <int V, size_t... P>
constexpr auto make_table(std::index_sequence<P...>) {
  return std::array<TileFunction, sizeof...(P)>{tile<static_cast<int>(P) + 1, V>...};
}

// All rows of V vectors of columns, in tiles of nearly equal size.
template <int V>
void panel(const DenseProduct& product, int column, __mmask16 last) {
  constexpr int kMax = kAccumulators / V;
  static constexpr auto kTable = make_table<V>(std::make_index_sequence<kMax>{});
  int row = 0;
  for (int tiles = (product.rows + kMax - 1) / kMax; tiles > 0; --tiles) {
    const int p = (product.rows - row + tiles - 1) / tiles;
    kTable[static_cast<size_t>(p - 1)](product, row, column, last);
    row += p;
  }
}

}  // namespace

void dense_product(const DenseProduct& product) {
  constexpr int kWide = 2 * kLanes;  // b's panel of 256 rows is then as large as the first-level cache
  int column = 0;
  for (; column + kWide <= product.columns; column += kWide) panel<2>(product, column, 0xffff);
  const int left = product.columns - column;
  if (left == 0) return;
  const int in_last = (left - 1) % kLanes + 1;
  const auto last = static_cast<__mmask16>((1u << in_last) - 1);
  left > kLanes ? panel<2>(product, column, last) : panel<1>(product, column, last);
}

void column_sums(const float* a, ptrdiff_t a_row, int rows, int columns, float* sums) {
  for (int n = 0; n < columns; n += kLanes) {
    const auto lanes = static_cast<__mmask16>(columns - n >= kLanes ? 0xffffu : (1u << (columns - n)) - 1);
    __m512 even = _mm512_maskz_loadu_ps(lanes, sums + n), odd = _mm512_setzero_ps();
    int m = 0;
    for (; m + 2 <= rows; m += 2) {
      even = _mm512_add_ps(even, _mm512_maskz_loadu_ps(lanes, a + m * a_row + n));
      odd = _mm512_add_ps(odd, _mm512_maskz_loadu_ps(lanes, a + (m + 1) * a_row + n));
    }
    if (m < rows) even = _mm512_add_ps(even, _mm512_maskz_loadu_ps(lanes, a + m * a_row + n));
    _mm512_mask_storeu_ps(sums + n, lanes, _mm512_add_ps(even, odd));
  }
}

}  // namespace parl::internal

#endif
