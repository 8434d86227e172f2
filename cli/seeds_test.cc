#include "cli/seeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "parl/core/files.h"
#include "parl/train/metrics.h"

namespace parl::cli {
namespace {

using testing::HasSubstr;

TEST(Interval, IsStudents) {
  EXPECT_EQ(interval_95({3}), 0);
  // mean 2, deviation 1, n = 3: 4.303 / sqrt(3)
  EXPECT_NEAR(interval_95({1, 2, 3}), 4.303 / std::sqrt(3.0), 1e-3);
}

TEST(MeanCurves, InterpolateAndEndWithTheShortest) {
  const MeanCurve mean = mean_curve({{"a", {0, 100}, {0, 10}}, {"b", {0, 50, 80}, {0, 5, 8}}}, 5);
  EXPECT_THAT(mean.x, testing::ElementsAre(0, 20, 40, 60, 80));
  for (size_t i = 0; i < mean.x.size(); ++i) {
    EXPECT_NEAR(mean.mean[i], mean.x[i] / 10, 1e-12);  // both are y = x / 10
    EXPECT_NEAR(mean.high[i] - mean.low[i], 0, 1e-9);
  }
  EXPECT_TRUE(mean_curve({{"a", {}, {}}}).x.empty());
}

TEST(SvgChart, DrawsOneLineACurveAndTheMean) {
  const std::vector<Curve> curves = {{"seed-1", {0, 1e6}, {-21, 18}}, {"seed-<2>", {0, 1e6}, {-20, 19}}};
  const std::string svg = svg_chart("impala atari:pong", "agent steps", "return", curves, mean_curve(curves));
  size_t lines = 0;
  for (size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) ++lines;
  EXPECT_EQ(lines, 3U);
  EXPECT_THAT(svg, HasSubstr("<polygon"));
  EXPECT_THAT(svg, HasSubstr("seed-&lt;2&gt;"));
  EXPECT_THAT(svg, HasSubstr("1 M"));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_THAT(svg_chart("t", "x", "y", {}, {}), testing::EndsWith("</svg>\n"));  // nothing to draw is no error
}

TEST(SeedReports, ReadRunsAndWriteCurveAndPlot) {
  const std::string folder = testing::TempDir() + "parl_seeds_" + std::to_string(::getpid());
  std::vector<SeedRun> runs;
  for (const int seed : {1, 2, 3}) {
    const std::string run = folder + "/seed-" + std::to_string(seed);
    std::filesystem::create_directories(run);
    MetricsWriter metrics(run, {"return_mean_100"}, 0, false);
    metrics.write(10, {});  // below 100 episodes
    for (int64_t steps = 20; steps <= 100; steps += 10) metrics.write(steps, {{"return_mean_100", seed}});
    SeedRun summary;
    summary.run = run;
    summary.return_mean_100 = seed;
    runs.push_back(summary);
  }
  const SeedReport report = report_seeds(folder, "title", runs);
  EXPECT_EQ(report.mean, 2);
  EXPECT_NEAR(report.high - report.mean, 4.303 / std::sqrt(3.0), 1e-3);
  const MetricsTable table = read_metrics(report.csv);
  EXPECT_THAT(table.columns, testing::ElementsAre("steps", "mean", "low", "high", "seed-1", "seed-2", "seed-3"));
  EXPECT_EQ(table.rows.front()[0], 20);
  EXPECT_EQ(table.column("mean").back(), 2);
  EXPECT_THAT(read_file(report.svg), HasSubstr("<svg"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace parl::cli
