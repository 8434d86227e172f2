// Matrix products of fully connected layers for one AVX-512 core, in float32, on matrices as they lie: no packing.
//
// One idea: a tile of P x V accumulators in registers (P rows, V vectors of 16 columns); each step broadcasts P numbers
// of a and multiplies them with V vectors of b. Every output is one chain of fused multiply-adds in a fixed order,
// whatever the number of rows. Pure functions; any thread. Without AVX-512 the header is empty (PARL_HAS_DENSE_KERNELS
// undefined).
#pragma once

#ifdef __AVX512F__
#define PARL_HAS_DENSE_KERNELS 1

#include <cstddef>

namespace parl::internal {

// c[m][n] = sum over k < depth of a[m * a_row + k * a_step] * b[k * b_row + n], for m < rows, n < columns; then, as
// wanted: + bias[n], maximum with 0, kept only where mask > 0, added to what c holds.
// Row lengths (b_row, c_row) that are no multiple of 256 floats keep the first-level cache from thrashing: see
// padded_row().
struct DenseProduct {
  const float* a = nullptr;
  ptrdiff_t a_row = 0, a_step = 1;
  const float* b = nullptr;
  ptrdiff_t b_row = 0;
  float* c = nullptr;
  ptrdiff_t c_row = 0;
  int rows = 0, columns = 0, depth = 0;
  const float* bias = nullptr;
  bool relu = false;
  const float* mask = nullptr;  // rows of c_row, as c
  bool add = false;
};
void dense_product(const DenseProduct& product);

// sums[n] += sum over m < rows of a[m * a_row + n], for n < columns.
void column_sums(const float* a, ptrdiff_t a_row, int rows, int columns, float* sums);

// Floats from row to row for `columns` of them.
constexpr ptrdiff_t padded_row(int columns) { return (columns + 15) / 16 * 16 + 16; }

}  // namespace parl::internal

#endif
