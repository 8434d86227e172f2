// Small running statistics. Values, not thread-safe: one owner each.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>

#include "parl/core/fields.h"

namespace parl {

// Count, mean and variance in a form that travels and can be merged: the result is that of all values together.
struct Moments {
  double count = 0, mean = 0, squares = 0;  // squares: sum of (x - mean)^2

  void add(double x) { merge({1, x, 0}); }
  void merge(const Moments& o) {
    if (o.count == 0) return;
    const double all = count + o.count, difference = o.mean - mean;
    mean += difference * (o.count / all);
    squares += o.squares + difference * difference * (count * o.count / all);
    count = all;
  }
  double variance() const { return count > 0 ? squares / count : std::numeric_limits<double>::quiet_NaN(); }
};
PARL_FIELDS(Moments, count, mean, squares);

// Mean, deviation, minimum and maximum of everything added (Welford).
class RunningStat {
 public:
  void add(double x) {
    ++count_;
    const double d = x - mean_;
    mean_ += d / static_cast<double>(count_);
    m2_ += d * (x - mean_);
    min_ = std::min(min_, x);
    max_ = std::max(max_, x);
  }
  int64_t count() const { return count_; }
  double mean() const { return count_ ? mean_ : std::numeric_limits<double>::quiet_NaN(); }
  double variance() const {
    return count_ ? m2_ / static_cast<double>(count_) : std::numeric_limits<double>::quiet_NaN();
  }
  double stddev() const { return std::sqrt(variance()); }
  double min() const { return min_; }
  double max() const { return max_; }
  void clear() { *this = RunningStat(); }

 private:
  int64_t count_ = 0;
  double mean_ = 0, m2_ = 0;
  double min_ = std::numeric_limits<double>::infinity(), max_ = -std::numeric_limits<double>::infinity();
};

// The last `size` values.
class WindowStat {
 public:
  explicit WindowStat(size_t size) : size_(size) {}
  void add(double x) {
    values_.push_back(x);
    if (values_.size() > size_) values_.pop_front();
  }
  size_t count() const { return values_.size(); }
  bool full() const { return values_.size() == size_; }
  double mean() const {  // summed afresh: no drift, and the same after a restore
    if (values_.empty()) return std::numeric_limits<double>::quiet_NaN();
    double sum = 0;
    for (double v : values_) sum += v;
    return sum / static_cast<double>(values_.size());
  }
  const std::deque<double>& values() const { return values_; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  std::deque<double> values_;
};

}  // namespace parl
