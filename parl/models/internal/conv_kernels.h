// Convolutions and matrix products for one AVX-512 core, in float32: what a small network's forward and backward pass
// is made of. All of it is one idea: a tile of P x V accumulators in registers (P pixels or rows, V vectors of 16
// channels); each step broadcasts P numbers and multiplies them with V vectors of packed weights.
//
// Every output is one chain of fused multiply-adds in a fixed order, whatever the tile's or the batch's size: the same
// observation gives the same bits in a batch of 1 and of 1,000.
// Images are HWC. Pure functions; any thread. Without AVX-512 the header is empty (PARL_HAS_CONV_KERNELS undefined).
#pragma once

#ifdef __AVX512F__
#define PARL_HAS_CONV_KERNELS 1

#include <cstddef>

namespace parl::internal {

inline constexpr int kLanes = 16;

// One run of pixels of one output row.
//   out[p][0..16V) = sum over ky in [ky_begin, ky_end), j in [0, row_length) of
//                    in[ky * row_stride + p * spacing + j] * weights[ky][j][0..16V)
struct ConvRun {
  const float* in = nullptr;
  ptrdiff_t spacing = 0;     // between neighbouring pixels' windows
  ptrdiff_t row_stride = 0;  // between image rows
  int ky_begin = 0, ky_end = 0;
  int row_length = 0;              // kernel width * channels
  const float* weights = nullptr;  // packed [kernel height][row_length][16V]
  float* out = nullptr;
  ptrdiff_t out_spacing = 0;
  int pixels = 0;
  const float* bias = nullptr;  // [16V], forward only
  const float* mask = nullptr;  // same spacing as out, backward only
};

// out = max(0, bias + sum). vectors: 1 or 2.
void conv_forward_run(const ConvRun& run, int vectors);
// out = mask > 0 ? sum : 0.
void conv_backward_run(const ConvRun& run, int vectors);

// Weight gradient of one strip of output rows: for each ky, j and channel
//   gradient[ky][j][0..16V) += sum over rows, pixels of in[(row * stride + ky) * row_stride + pixel * spacing + j] *
//   dy[row][pixel][..]
struct ConvWeightGradient {
  const float* in = nullptr;
  ptrdiff_t spacing = 0, row_stride = 0, out_row_step = 0;  // out_row_step = stride * row_stride
  int kernel_height = 0, row_length = 0;
  const float* dy = nullptr;
  ptrdiff_t dy_spacing = 0, dy_row_stride = 0;
  int rows = 0, pixels = 0;
  float* gradient = nullptr;  // packed [kernel height][row_length][16V]
};
void conv_weight_gradient(const ConvWeightGradient& strip, int vectors);

// Row-major blocks: c[m][0..16V) += sum over k < depth of a[m][k] * b[k][0..16V), b packed. vectors: 1, 2 or 4.
// `prefetch`, if not null, is memory of the same size as b that the caller needs next.
void gemm_block(const float* a, ptrdiff_t a_stride, const float* b, int depth, float* c, ptrdiff_t c_stride, int rows,
                int vectors, const float* prefetch);

// c[i][0..32) += sum over n < depth of a[n][i] * b[n][0..32), for i < 8; a packed [depth][8], b packed [depth][32].
void outer_block(const float* a, const float* b, int depth, float* c, ptrdiff_t c_stride);

// sums[c] += sum over rows and pixels of dy[row][pixel][c], for c < channels (a multiple of 16).
void channel_sums(const float* dy, ptrdiff_t spacing, ptrdiff_t row_stride, int rows, int pixels, int channels,
                  float* sums);

void bytes_to_floats(const unsigned char* from, ptrdiff_t n, float* to);

// to[j][i] = from[i][j] for a rows x columns matrix.
void transpose(const float* from, ptrdiff_t from_stride, int rows, int columns, float* to, ptrdiff_t to_stride);

}  // namespace parl::internal

#endif
