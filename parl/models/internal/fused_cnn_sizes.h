// Block sizes of fused_cnn*.cc, for 48 KiB of first- and 1 MiB of second-level cache.
#pragma once

namespace parl::internal {

inline constexpr int kChunkRows = 288;          // observations per matrix product; a multiple of its tile of 6
inline constexpr int kDenseDepth = 128;         // a block of weights is 128 x 64 floats: 32 KiB
inline constexpr int kOuterDepth = kChunkRows;  // rows per block of the dense weight gradient: each touches all of it
inline constexpr int kStripBytes = 28 * 1024;   // image and gradient rows per strip of a convolution's weight gradient

// n rows in chunks of nearly equal size.
constexpr int chunk_rows(int n) {
  const int chunks = (n + kChunkRows - 1) / kChunkRows;
  return chunks > 1 ? (n + chunks - 1) / chunks : n;
}

}  // namespace parl::internal
