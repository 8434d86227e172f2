#include "parl/models/internal/conv_kernels.h"

#ifdef PARL_HAS_CONV_KERNELS

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

namespace parl::internal {
namespace {

constexpr int kMaxTile = 24;  // accumulators; the other 8 registers hold weights and a broadcast

#define PARL_UNROLL _Pragma("GCC unroll 24")
#define PARL_INLINE inline __attribute__((always_inline))

// NaN stays NaN. (The masked form, because the plain one makes GCC 12 warn about its own header.)
PARL_INLINE __m512 relu(__m512 x) { return _mm512_maskz_max_ps(0xffff, _mm512_setzero_ps(), x); }

template <int P, int V>
struct Tile {
  __m512 acc[P][V];
};

// kSpacing 0: known at run time only.
template <int P, int V, int kSpacing>
PARL_INLINE void accumulate(const ConvRun& run, const float* first, Tile<P, V>& tile) {
  const ptrdiff_t spacing = kSpacing ? kSpacing : run.spacing;
  for (int ky = run.ky_begin; ky < run.ky_end; ++ky) {
    const float* __restrict in = first + ky * run.row_stride;
    const float* __restrict w = run.weights + static_cast<ptrdiff_t>(ky) * run.row_length * (V * kLanes);
    for (int j = 0; j < run.row_length; ++j, ++in, w += V * kLanes) {
      __m512 weight[V];
      PARL_UNROLL for (int v = 0; v < V; ++v) weight[v] = _mm512_loadu_ps(w + v * kLanes);
      PARL_UNROLL for (int p = 0; p < P; ++p) {
        const __m512 x = _mm512_set1_ps(in[p * spacing]);
        PARL_UNROLL for (int v = 0; v < V; ++v) tile.acc[p][v] = _mm512_fmadd_ps(x, weight[v], tile.acc[p][v]);
      }
    }
  }
}

template <int P, int V, int kSpacing>
void forward_tile(const ConvRun& run, const float* in, float* out, const float*) {
  Tile<P, V> tile;
  PARL_UNROLL for (int v = 0; v < V; ++v) {
    const __m512 bias = _mm512_loadu_ps(run.bias + v * kLanes);
    PARL_UNROLL for (int p = 0; p < P; ++p) tile.acc[p][v] = bias;
  }
  accumulate<P, V, kSpacing>(run, in, tile);
  PARL_UNROLL for (int p = 0; p < P; ++p) {
    PARL_UNROLL for (int v = 0; v < V; ++v) {
      _mm512_storeu_ps(out + p * run.out_spacing + v * kLanes, relu(tile.acc[p][v]));
    }
  }
}

template <int P, int V, int kSpacing>
void backward_tile(const ConvRun& run, const float* in, float* out, const float* mask) {
  Tile<P, V> tile;
  PARL_UNROLL for (int p = 0; p < P; ++p) {
    PARL_UNROLL for (int v = 0; v < V; ++v) tile.acc[p][v] = _mm512_setzero_ps();
  }
  accumulate<P, V, kSpacing>(run, in, tile);
  PARL_UNROLL for (int p = 0; p < P; ++p) {
    PARL_UNROLL for (int v = 0; v < V; ++v) {
      const ptrdiff_t at = p * run.out_spacing + v * kLanes;
      const __mmask16 live = _mm512_cmp_ps_mask(_mm512_loadu_ps(mask + at), _mm512_setzero_ps(), _CMP_GT_OQ);
      _mm512_storeu_ps(out + at, _mm512_maskz_mov_ps(live, tile.acc[p][v]));
    }
  }
}

using TileFunction = void (*)(const ConvRun&, const float* in, float* out, const float* mask);
template <bool kForward, int V, int kSpacing, size_t... P>
constexpr auto make_table(std::index_sequence<P...>) {
  return std::array<TileFunction, sizeof...(P)>{(kForward ? forward_tile<static_cast<int>(P) + 1, V, kSpacing>
                                                          : backward_tile<static_cast<int>(P) + 1, V, kSpacing>)...};
}

// Cuts the run into tiles of nearly equal size, none above kMaxP. (The run is not copied: reading it back in wide words
// right after its fields were written would stall on every call.)
template <bool kForward, int V, int kSpacing, int kMaxP>
void run_tiles(const ConvRun& run) {
  static constexpr auto kTable = make_table<kForward, V, kSpacing>(std::make_index_sequence<kMaxP>{});
  if (run.pixels <= kMaxP) return kTable[static_cast<size_t>(run.pixels - 1)](run, run.in, run.out, run.mask);
  int rest = run.pixels;
  const float *in = run.in, *mask = run.mask;
  float* out = run.out;
  for (int tiles = (rest + kMaxP - 1) / kMaxP; tiles > 0; --tiles) {
    const int p = (rest + tiles - 1) / tiles;
    kTable[static_cast<size_t>(p - 1)](run, in, out, mask);
    in += p * run.spacing;
    out += p * run.out_spacing;
    if (mask) mask += p * run.out_spacing;
    rest -= p;
  }
}

template <bool kForward>
void dispatch(const ConvRun& run, int vectors) {
  if (vectors == 1) {
    switch (run.spacing) {
      case 8:
        return run_tiles<kForward, 1, 8, kMaxTile>(run);
      case 16:
        return run_tiles<kForward, 1, 16, kMaxTile>(run);
      case 32:
        return run_tiles<kForward, 1, 32, kMaxTile>(run);
      default:
        return run_tiles<kForward, 1, 0, 8>(run);
    }
  }
  switch (run.spacing) {
    case 16:
      return run_tiles<kForward, 2, 16, kMaxTile / 2>(run);
    case 32:
      return run_tiles<kForward, 2, 32, kMaxTile / 2>(run);
    case 64:
      return run_tiles<kForward, 2, 64, kMaxTile / 2>(run);
    default:
      return run_tiles<kForward, 2, 0, 6>(run);
  }
}

// R window positions x V vectors of one kernel row, over the whole strip.
template <int R, int V>
void weight_gradient_tile(const ConvWeightGradient& s, const float* in, float* gradient) {
  __m512 acc[R][V];
  PARL_UNROLL for (int r = 0; r < R; ++r) {
    PARL_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = _mm512_loadu_ps(gradient + (r * V + v) * kLanes);
  }
  const float* dy_row = s.dy;
  for (int row = 0; row < s.rows; ++row, in += s.out_row_step, dy_row += s.dy_row_stride) {
    const float* __restrict x = in;
    const float* __restrict dy = dy_row;
    for (int p = 0; p < s.pixels; ++p, x += s.spacing, dy += s.dy_spacing) {
      __m512 d[V];
      PARL_UNROLL for (int v = 0; v < V; ++v) d[v] = _mm512_loadu_ps(dy + v * kLanes);
      PARL_UNROLL for (int r = 0; r < R; ++r) {
        const __m512 b = _mm512_set1_ps(x[r]);
        PARL_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = _mm512_fmadd_ps(b, d[v], acc[r][v]);
      }
    }
  }
  PARL_UNROLL for (int r = 0; r < R; ++r) {
    PARL_UNROLL for (int v = 0; v < V; ++v) _mm512_storeu_ps(gradient + (r * V + v) * kLanes, acc[r][v]);
  }
}

template <int V>
void weight_gradient(const ConvWeightGradient& s) {
  constexpr int kWide = V == 1 ? 16 : 8;
  for (int ky = 0; ky < s.kernel_height; ++ky) {
    const float* in = s.in + ky * s.row_stride;
    float* gradient = s.gradient + static_cast<ptrdiff_t>(ky) * s.row_length * (V * kLanes);
    int j = 0;
    for (; j + kWide <= s.row_length; j += kWide) weight_gradient_tile<kWide, V>(s, in + j, gradient + j * V * kLanes);
    for (; j < s.row_length; ++j) weight_gradient_tile<1, V>(s, in + j, gradient + j * V * kLanes);
  }
}

template <int P, int V>
void gemm_tile(const float* a, ptrdiff_t a_stride, const float* b, int depth, float* c, ptrdiff_t c_stride,
               const float* prefetch, int prefetch_bytes) {
  __m512 acc[P][V];
  PARL_UNROLL for (int p = 0; p < P; ++p) {
    PARL_UNROLL for (int v = 0; v < V; ++v) acc[p][v] = _mm512_loadu_ps(c + p * c_stride + v * kLanes);
  }
  const char* ahead = reinterpret_cast<const char*>(prefetch);
  const char* ahead_end = ahead + prefetch_bytes;
  for (int k = 0; k < depth; ++k, ++a, b += V * kLanes) {
    if (ahead < ahead_end) {
      _mm_prefetch(ahead, _MM_HINT_T1);
      ahead += 64;
    }
    __m512 w[V];
    PARL_UNROLL for (int v = 0; v < V; ++v) w[v] = _mm512_loadu_ps(b + v * kLanes);
    PARL_UNROLL for (int p = 0; p < P; ++p) {
      const __m512 x = _mm512_set1_ps(a[p * a_stride]);
      PARL_UNROLL for (int v = 0; v < V; ++v) acc[p][v] = _mm512_fmadd_ps(x, w[v], acc[p][v]);
    }
  }
  PARL_UNROLL for (int p = 0; p < P; ++p) {
    PARL_UNROLL for (int v = 0; v < V; ++v) _mm512_storeu_ps(c + p * c_stride + v * kLanes, acc[p][v]);
  }
}

template <int V>
void gemm_rows(const float* a, ptrdiff_t a_stride, const float* b, int depth, float* c, ptrdiff_t c_stride, int rows,
               const float* prefetch) {
  using Function = void (*)(const float*, ptrdiff_t, const float*, int, float*, ptrdiff_t, const float*, int);
  static constexpr Function kTable[] = {gemm_tile<1, V>, gemm_tile<2, V>, gemm_tile<3, V>,
                                        gemm_tile<4, V>, gemm_tile<5, V>, gemm_tile<6, V>};
  int tiles = (rows + 5) / 6;
  const int bytes = depth * V * kLanes * 4, share = tiles ? (bytes / tiles + 63) / 64 * 64 : 0;
  for (int done = 0; tiles > 0; --tiles) {
    const int p = (rows + tiles - 1) / tiles;
    const int ahead = prefetch ? std::clamp(bytes - done, 0, share) : 0;
    kTable[p - 1](a, a_stride, b, depth, c, c_stride, prefetch ? prefetch + done / 4 : nullptr, ahead);
    done += ahead;
    a += p * a_stride;
    c += p * c_stride;
    rows -= p;
  }
}

}  // namespace

void conv_forward_run(const ConvRun& run, int vectors) { dispatch<true>(run, vectors); }
void conv_backward_run(const ConvRun& run, int vectors) { dispatch<false>(run, vectors); }

void conv_weight_gradient(const ConvWeightGradient& strip, int vectors) {
  vectors == 1 ? weight_gradient<1>(strip) : weight_gradient<2>(strip);
}

void gemm_block(const float* a, ptrdiff_t a_stride, const float* b, int depth, float* c, ptrdiff_t c_stride, int rows,
                int vectors, const float* prefetch) {
  switch (vectors) {
    case 1:
      return gemm_rows<1>(a, a_stride, b, depth, c, c_stride, rows, prefetch);
    case 2:
      return gemm_rows<2>(a, a_stride, b, depth, c, c_stride, rows, prefetch);
    default:
      return gemm_rows<4>(a, a_stride, b, depth, c, c_stride, rows, prefetch);
  }
}

void outer_block(const float* a, const float* b, int depth, float* c, ptrdiff_t c_stride) {
  __m512 acc[8][2];
  PARL_UNROLL for (int i = 0; i < 8; ++i) {
    PARL_UNROLL for (int v = 0; v < 2; ++v) acc[i][v] = _mm512_loadu_ps(c + i * c_stride + v * kLanes);
  }
  for (int n = 0; n < depth; ++n, a += 8, b += 2 * kLanes) {
    const __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + kLanes);
    PARL_UNROLL for (int i = 0; i < 8; ++i) {
      const __m512 x = _mm512_set1_ps(a[i]);
      acc[i][0] = _mm512_fmadd_ps(x, b0, acc[i][0]);
      acc[i][1] = _mm512_fmadd_ps(x, b1, acc[i][1]);
    }
  }
  PARL_UNROLL for (int i = 0; i < 8; ++i) {
    PARL_UNROLL for (int v = 0; v < 2; ++v) _mm512_storeu_ps(c + i * c_stride + v * kLanes, acc[i][v]);
  }
}

void channel_sums(const float* dy, ptrdiff_t spacing, ptrdiff_t row_stride, int rows, int pixels, int channels,
                  float* sums) {
  for (int c = 0; c < channels; c += kLanes) {
    __m512 even = _mm512_loadu_ps(sums + c), odd = _mm512_setzero_ps();
    for (int row = 0; row < rows; ++row) {
      const float* d = dy + row * row_stride + c;
      int x = 0;
      for (; x + 2 <= pixels; x += 2, d += 2 * spacing) {
        even = _mm512_add_ps(even, _mm512_loadu_ps(d));
        odd = _mm512_add_ps(odd, _mm512_loadu_ps(d + spacing));
      }
      if (x < pixels) even = _mm512_add_ps(even, _mm512_loadu_ps(d));
    }
    _mm512_storeu_ps(sums + c, _mm512_add_ps(even, odd));
  }
}

void bytes_to_floats(const unsigned char* from, ptrdiff_t n, float* to) {
  for (; n > 0; n -= kLanes, from += kLanes, to += kLanes) {
    const __mmask16 mask = n >= kLanes ? 0xffff : static_cast<__mmask16>((1u << n) - 1);
    const __m512i wide = _mm512_maskz_cvtepu8_epi32(mask, _mm_maskz_loadu_epi8(mask, from));
    _mm512_mask_storeu_ps(to, mask, _mm512_maskz_cvtepi32_ps(mask, wide));
  }
}

namespace {

// A 16 x 16 block in registers: pairs, fours, then quarters change places.
void transpose_block(const float* from, ptrdiff_t from_stride, float* to, ptrdiff_t to_stride) {
  __m512 a[16], b[16];
  PARL_UNROLL for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_ps(from + i * from_stride);
  PARL_UNROLL for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_maskz_unpacklo_ps(0xffff, a[i], a[i + 1]);
    b[i + 1] = _mm512_maskz_unpackhi_ps(0xffff, a[i], a[i + 1]);
  }
  PARL_UNROLL for (int i = 0; i < 16; i += 4) {
    PARL_UNROLL for (int k = 0; k < 2; ++k) {
      const __m512 x = b[i + k], y = b[i + 2 + k];
      a[i + 2 * k] = _mm512_maskz_shuffle_ps(0xffff, x, y, 0x44);
      a[i + 2 * k + 1] = _mm512_maskz_shuffle_ps(0xffff, x, y, 0xee);
    }
  }
  PARL_UNROLL for (int i = 0; i < 4; ++i) {  // column i of every quarter: rows 0-3, 4-7, 8-11, 12-15
    const __m512 low = _mm512_maskz_shuffle_f32x4(0xffff, a[i], a[4 + i], 0x88);
    const __m512 high = _mm512_maskz_shuffle_f32x4(0xffff, a[i], a[4 + i], 0xdd);
    const __m512 low2 = _mm512_maskz_shuffle_f32x4(0xffff, a[8 + i], a[12 + i], 0x88);
    const __m512 high2 = _mm512_maskz_shuffle_f32x4(0xffff, a[8 + i], a[12 + i], 0xdd);
    b[i] = _mm512_maskz_shuffle_f32x4(0xffff, low, low2, 0x88);
    b[8 + i] = _mm512_maskz_shuffle_f32x4(0xffff, low, low2, 0xdd);
    b[4 + i] = _mm512_maskz_shuffle_f32x4(0xffff, high, high2, 0x88);
    b[12 + i] = _mm512_maskz_shuffle_f32x4(0xffff, high, high2, 0xdd);
  }
  PARL_UNROLL for (int i = 0; i < 16; ++i) _mm512_storeu_ps(to + i * to_stride, b[i]);
}

}  // namespace

void transpose(const float* from, ptrdiff_t from_stride, int rows, int columns, float* to, ptrdiff_t to_stride) {
  for (int i0 = 0; i0 < rows; i0 += kLanes) {
    const int i1 = std::min(rows, i0 + kLanes);
    int j = 0;
    for (; i1 - i0 == kLanes && j + kLanes <= columns; j += kLanes) {
      transpose_block(from + i0 * from_stride + j, from_stride, to + j * to_stride + i0, to_stride);
    }
    for (; j < columns; ++j) {
      for (int i = i0; i < i1; ++i) to[j * to_stride + i] = from[i * from_stride + j];
    }
  }
}

}  // namespace parl::internal

#endif
