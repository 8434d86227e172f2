// Built with -ffp-contract=off, as rng.cc is.
#include "parl/core/normal.h"

#include <array>
#include <cmath>

#include "parl/core/internal/normal_table.h"

namespace parl {
namespace {

using internal::kNormalEdge;
using internal::kNormalHeight;

constexpr double kTwo52 = 4503599627370496.0;
constexpr uint64_t kMask52 = (uint64_t{1} << 52) - 1;
constexpr double kTail = kNormalEdge[255];
constexpr double kInverseTail = 0.27366123732975827203338247596;

// A draw below limits[layer] lies under the curve whatever its height.
std::array<uint64_t, 256> make_limits() {
  std::array<uint64_t, 256> limits{};
  const auto part = [](double inner, double outer) {
    return static_cast<uint64_t>(std::nearbyint(inner / outer * kTwo52));
  };
  limits[0] = part(kTail, kNormalEdge[0]);
  for (size_t i = 2; i < limits.size(); ++i) limits[i] = part(kNormalEdge[i - 1], kNormalEdge[i]);
  return limits;
}

double draw_tail(NumpyRng& rng) {
  for (;;) {
    const double beyond = -kInverseTail * std::log1p(-rng.random());
    const double height = -std::log1p(-rng.random());
    if (height + height > beyond * beyond) return kTail + beyond;
  }
}

}  // namespace

double standard_normal(NumpyRng& rng) {
  static const std::array<uint64_t, 256> limits = make_limits();
  for (;;) {
    const uint64_t word = rng.next_u64();
    const size_t layer = word & 0xff;
    const bool negative = (word >> 8) & 1;
    const uint64_t place = (word >> 9) & kMask52;
    const double width = static_cast<double>(place) * (kNormalEdge[layer] / kTwo52);
    const double x = negative ? -width : width;
    if (place < limits[layer]) return x;
    if (layer == 0) {
      const double tail = draw_tail(rng);
      return (place >> 8) & 1 ? -tail : tail;
    }
    const double low = kNormalHeight[layer], high = kNormalHeight[layer - 1];
    if ((high - low) * rng.random() + low < std::exp(-0.5 * x * x)) return x;
  }
}

}  // namespace parl
