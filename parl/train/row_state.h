// RowState: what has been gathered since the last row of metrics.csv. Part of a checkpoint, so that a continued run
// writes the same next row.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "parl/core/fields.h"

namespace parl {

// A mean by name; NaN while nothing was added.
struct NamedMean {
  std::string name;
  int64_t count = 0;
  double sum = 0;
  double value() const { return count ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN(); }
};
PARL_FIELDS(NamedMean, name, count, sum);

struct RowState {
  std::vector<NamedMean> learning, scalars;  // in order of first appearance
  int64_t lags = 0, lag_sum = 0, lag_min = 0, lag_max = 0;
  std::optional<double> eval;      // newest evaluation
  std::optional<double> row_eval;  // newest since the last row
};
PARL_FIELDS(RowState, learning, scalars, lags, lag_sum, lag_min, lag_max, eval, row_eval);

}  // namespace parl
