// MetricsWriter: the numbers of a run, one row at a time, to metrics.csv and TensorBoard event files.
//
//   MetricsWriter metrics(run_dir, {"seconds", "updates", "return_mean_100"}, /*from_step=*/checkpoint_steps);
//   metrics.write(20'000, {{"seconds", 8.1}, {"updates", 20}, {"my_env/coins", 3.5}});
//
// metrics.csv: first column `steps` (agent steps), then the columns as first announced; their order never changes, and
// a name that is new later is added at the right (earlier rows are empty there). A value that is not known (NaN) is an
// empty cell. Numbers are written in their shortest exact form, so equal runs give equal files. Continuing: rows after
// `from_step` are dropped first (they come again), also in TensorBoard; 0 starts anew. Write the row of a step before
// the checkpoint of that step. Owner: one thread. write() blocks for the disk. Throws parl::Error naming file and
// cause; a row is whole or absent.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parl/train/tensorboard.h"

namespace parl {

using MetricRow = std::vector<std::pair<std::string, double>>;

class MetricsWriter {
 public:
  // `folder` exists. tensorboard = false: metrics.csv only.
  MetricsWriter(const std::string& folder, std::vector<std::string> columns, int64_t from_step = 0,
                bool tensorboard = true);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  void write(int64_t steps, const MetricRow& row);
  const std::vector<std::string>& columns() const { return columns_; }  // without `steps`
  const std::string& path() const { return path_; }

 private:
  void add_columns(const std::vector<std::string>& names);
  void open_to_append();

  std::string path_;
  std::vector<std::string> columns_;
  std::unique_ptr<EventFile> events_;
  int fd_ = -1;
};

// A metrics.csv in memory: names (with `steps`) and rows; empty cells are NaN. An unfinished last line is ignored.
struct MetricsTable {
  std::vector<std::string> columns;
  std::vector<std::vector<double>> rows;
  // Values of one column; throws with the near names when it is absent.
  std::vector<double> column(const std::string& name) const;
};
MetricsTable read_metrics(const std::string& path);

// Resident memory of this process and its children (process engine), in MiB.
double rss_mb();

}  // namespace parl
