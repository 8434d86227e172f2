// Sums in numpy's order, so that rewards equal Gymnasium's to the bit. The files that use them are built without fused
// multiply-adds. Pure functions; any thread.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <span>

namespace parl::internal {

// numpy's pairwise sum of term(0), ..., term(n - 1) (np.sum over a contiguous array).
template <typename T, typename Term>
T numpy_sum(const Term& term, size_t begin, size_t n) {
  if (n < 8) {
    T sum = 0;
    for (size_t i = 0; i < n; ++i) sum += term(begin + i);
    return sum;
  }
  if (n <= 128) {
    std::array<T, 8> lanes;
    for (size_t k = 0; k < 8; ++k) lanes[k] = term(begin + k);
    size_t i = 8;
    for (; i + 8 <= n; i += 8) {
      for (size_t k = 0; k < 8; ++k) lanes[k] += term(begin + i + k);
    }
    T sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    for (; i < n; ++i) sum += term(begin + i);
    return sum;
  }
  const size_t half = n / 2 - n / 2 % 8;
  return numpy_sum<T>(term, begin, half) + numpy_sum<T>(term, begin + half, n - half);
}

// np.sum(np.square(values)).
template <typename T>
T sum_of_squares(std::span<const T> values) {
  return numpy_sum<T>([&](size_t i) { return values[i] * values[i]; }, 0, values.size());
}

// Gymnasium's cost of an action: float32, as the action is, weight included.
inline float action_cost(double weight, std::span<const float> action) {
  return static_cast<float>(weight) * sum_of_squares(action);
}

// np.linalg.norm of a short vector.
inline double norm(std::span<const double> v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return std::sqrt(sum);
}

// np.clip: NaN stays.
inline double clip(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

}  // namespace parl::internal
