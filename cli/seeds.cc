#include "cli/seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/train/metrics.h"

namespace parl::cli {
namespace {

// Student's t, 97.5 %, by degrees of freedom.
double t_quantile(size_t freedom) {
  static constexpr double kT[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                  2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                  2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  return freedom == 0 ? 0 : freedom <= std::size(kT) ? kT[freedom - 1] : 1.96;
}

double average(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double value_at(const Curve& curve, double x) {
  const auto right = std::lower_bound(curve.x.begin(), curve.x.end(), x);
  if (right == curve.x.end()) return curve.y.back();
  const auto i = static_cast<size_t>(right - curve.x.begin());
  if (i == 0 || *right == x) return curve.y[i];
  const double share = (x - curve.x[i - 1]) / (curve.x[i] - curve.x[i - 1]);
  return curve.y[i - 1] + share * (curve.y[i] - curve.y[i - 1]);
}

Curve curve_of(const SeedRun& summary, const std::string& name) {
  Curve curve{name, {}, {}};
  const MetricsTable table = read_metrics(summary.run + "/metrics.csv");
  const std::vector<double> steps = table.column("steps"), returns = table.column("return_mean_100");
  for (size_t i = 0; i < steps.size(); ++i) {
    if (std::isnan(returns[i])) continue;
    curve.x.push_back(steps[i]);
    curve.y.push_back(returns[i]);
  }
  return curve;
}

}  // namespace

double interval_95(const std::vector<double>& values) {
  const size_t n = values.size();
  if (n < 2) return 0;
  const double mean = average(values);
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return t_quantile(n - 1) * std::sqrt(squares / static_cast<double>(n - 1) / static_cast<double>(n));
}

MeanCurve mean_curve(const std::vector<Curve>& curves, int points) {
  MeanCurve out;
  double first = 0, last = std::numeric_limits<double>::infinity();
  for (const Curve& c : curves) {
    if (c.x.empty()) return out;
    first = std::max(first, c.x.front());
    last = std::min(last, c.x.back());
  }
  if (curves.empty() || last < first) return out;
  for (int i = 0; i < points; ++i) {
    const double x = first + (last - first) * i / std::max(points - 1, 1);
    std::vector<double> values;
    for (const Curve& c : curves) values.push_back(value_at(c, x));
    const double mean = average(values), half = interval_95(values);
    out.x.push_back(x);
    out.mean.push_back(mean);
    out.low.push_back(mean - half);
    out.high.push_back(mean + half);
  }
  return out;
}

SeedReport report_seeds(const std::string& folder, const std::string& title, const std::vector<SeedRun>& runs) {
  SeedReport report;
  std::vector<Curve> curves;
  std::vector<double> finals;
  for (const SeedRun& s : runs) {
    const std::string name = s.run.substr(s.run.rfind('/') + 1);
    curves.push_back(curve_of(s, name));
    if (s.return_mean_100) finals.push_back(*s.return_mean_100);
    report.text +=
        fmt::format("{:<10} return {}  steps {}  {:.0f} s\n", name,
                    s.return_mean_100 ? fmt::format("{:8.2f}", *s.return_mean_100) : "       -", s.steps, s.seconds);
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  report.mean = report.low = report.high = nan;
  if (!finals.empty() && finals.size() == runs.size()) {
    const double half = interval_95(finals);
    report.mean = average(finals);
    report.low = report.mean - half;
    report.high = report.mean + half;
    report.text += fmt::format("mean {:.2f}, 95 % interval {:.2f} .. {:.2f} over {} seeds\n", report.mean, report.low,
                               report.high, finals.size());
  }
  const MeanCurve mean = mean_curve(curves);
  std::string csv = "steps,mean,low,high";
  for (const Curve& c : curves) csv += "," + c.name;
  csv += "\n";
  for (size_t i = 0; i < mean.x.size(); ++i) {
    csv += fmt::format("{:.0f},{:.4f},{:.4f},{:.4f}", mean.x[i], mean.mean[i], mean.low[i], mean.high[i]);
    for (const Curve& c : curves) csv += fmt::format(",{:.4f}", value_at(c, mean.x[i]));
    csv += "\n";
  }
  report.csv = folder + "/seeds.csv";
  report.svg = folder + "/seeds.svg";
  write_file_atomically(report.csv, csv);
  write_file_atomically(report.svg,
                        svg_chart(title, "agent steps", "raw return, mean of the last 100 episodes", curves, mean));
  report.text += fmt::format("curve: {}  plot: {}\n", report.csv, report.svg);
  return report;
}

}  // namespace parl::cli
