// What several seeds of one setting say together: curve with mean and interval, as CSV and SVG.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace parl::cli {

struct Curve {
  std::string name;
  std::vector<double> x, y;  // x ascending
};

// Mean over curves at common x, with the 95 % interval of the mean (Student's t; equal to the mean for one curve).
// Values between two points of a curve are interpolated; x ends where the shortest curve ends.
struct MeanCurve {
  std::vector<double> x, mean, low, high;
};
MeanCurve mean_curve(const std::vector<Curve>& curves, int points = 200);

// Half the width of the 95 % interval of a mean, from n values. 0 for one value.
double interval_95(const std::vector<double>& values);

// A chart of the curves, their mean and its band, as an SVG document.
std::string svg_chart(const std::string& title, const std::string& x_label, const std::string& y_label,
                      const std::vector<Curve>& curves, const MeanCurve& mean);

struct SeedRun {
  std::string run;  // its directory
  std::optional<double> return_mean_100;
  int64_t steps = 0;
  double seconds = 0;
};

struct SeedReport {
  std::string text;                    // for people
  double mean = 0, low = 0, high = 0;  // of return_mean_100 at the end; NaN without 100 episodes everywhere
  std::string csv, svg;                // files written, in `folder`
};
// Reads each run's metrics.csv and writes <folder>/seeds.csv and <folder>/seeds.svg.
SeedReport report_seeds(const std::string& folder, const std::string& title, const std::vector<SeedRun>& runs);

}  // namespace parl::cli
