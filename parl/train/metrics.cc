#include "parl/train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/core/process.h"

namespace parl {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(by);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string cell(double value) {
  if (std::isnan(value)) return "";
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{}", static_cast<int64_t>(value));
  return fmt::format("{}", value);
}

std::string column_name(std::string name) {  // a name must not break the table
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ',' || c == '"' || c == '\n' || c == '\r'; }, '_');
  return name;
}

// The whole lines of a table, header first.
std::vector<std::string> whole_lines(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<std::string> lines;
  size_t start = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    lines.emplace_back(text, start, end - start);
    start = end + 1;
  }
  return lines;
}

int64_t step_of(std::string_view line, const std::string& path) {
  int64_t steps = 0;
  const auto [at, error] = std::from_chars(line.data(), line.data() + line.size(), steps);
  if (error != std::errc() || (at != line.data() + line.size() && *at != ',')) {
    raise("'{}' has a row that does not begin with agent steps: '{}'", path, line.substr(0, 60));
  }
  return steps;
}

}  // namespace

MetricsWriter::MetricsWriter(const std::string& folder, std::vector<std::string> columns, int64_t from_step,
                             bool tensorboard)
    : path_(folder + "/metrics.csv") {
  std::string kept;
  if (from_step > 0 && std::filesystem::exists(path_)) {
    const std::vector<std::string> lines = whole_lines(path_);
    if (!lines.empty()) {
      const auto names = split(lines[0], ',');
      PARL_CHECK(names[0] == "steps", "'{}' is not a metrics file of a run: its first column is '{}'", path_, names[0]);
      columns_.assign(names.begin() + 1, names.end());
      for (size_t i = 1; i < lines.size(); ++i) {
        if (step_of(lines[i], path_) <= from_step) kept += lines[i] + "\n";
      }
    }
  }
  std::vector<std::string> fresh;
  for (const std::string& name : columns) {
    const std::string clean = column_name(name);
    if (std::find(columns_.begin(), columns_.end(), clean) == columns_.end()) fresh.push_back(clean);
  }
  std::string header = "steps";
  for (const std::string& name : columns_) header += "," + name;
  write_file_atomically(path_, header + "\n" + kept);
  add_columns(fresh);
  if (tensorboard) events_ = std::make_unique<EventFile>(folder + "/tensorboard", from_step > 0 ? from_step + 1 : 0);
}

MetricsWriter::~MetricsWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsWriter::open_to_append() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) throw Error(file_error("write", path_, errno));
}

void MetricsWriter::add_columns(const std::vector<std::string>& names) {
  std::vector<std::string> lines = whole_lines(path_);
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    text += lines[i];
    for (const std::string& name : names) text += i == 0 ? "," + name : ",";
    text += "\n";
  }
  if (!names.empty()) write_file_atomically(path_, text);
  columns_.insert(columns_.end(), names.begin(), names.end());
  open_to_append();
}

void MetricsWriter::write(int64_t steps, const MetricRow& row) {
  std::map<std::string, double> values;
  std::vector<std::string> fresh;
  for (const auto& [name, value] : row) {
    const std::string clean = column_name(name);
    const bool first = values.emplace(clean, value).second;
    PARL_CHECK(first, "the metric '{}' stands twice in one row", clean);
    if (std::find(columns_.begin(), columns_.end(), clean) == columns_.end()) fresh.push_back(clean);
  }
  if (!fresh.empty()) add_columns(fresh);

  std::string line = fmt::format("{}", steps);
  for (const std::string& name : columns_) {
    const auto at = values.find(name);
    line += "," + cell(at == values.end() ? kNan : at->second);
  }
  line += "\n";
  const off_t before = ::lseek(fd_, 0, SEEK_END);
  const ssize_t written = ::write(fd_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) {
    const int error = written < 0 ? errno : ENOSPC;
    if (before >= 0 && ::ftruncate(fd_, before) != 0) {
      // the half row stays; readers ignore a last line without its end
    }
    throw Error(file_error("write", path_, error));
  }
  if (events_) {
    for (const auto& [name, value] : row) {
      if (!std::isnan(value)) events_->scalar(name, steps, value);
    }
    events_->flush();
  }
}

std::vector<double> MetricsTable::column(const std::string& name) const {
  const auto at = std::find(columns.begin(), columns.end(), name);
  if (at == columns.end()) raise("there is no metric '{}'{}", name, did_you_mean(name, columns));
  std::vector<double> values;
  for (const auto& row : rows) values.push_back(row[static_cast<size_t>(at - columns.begin())]);
  return values;
}

MetricsTable read_metrics(const std::string& path) {
  MetricsTable table;
  const std::vector<std::string> lines = whole_lines(path);
  PARL_CHECK(!lines.empty(), "'{}' is empty", path);
  for (const auto name : split(lines[0], ',')) table.columns.emplace_back(name);
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto cells = split(lines[i], ',');
    PARL_CHECK(cells.size() == table.columns.size(), "'{}', line {}: {} cells under {} columns", path, i + 1,
               cells.size(), table.columns.size());
    std::vector<double> row;
    for (const auto text : cells) {
      double value = kNan;
      if (!text.empty()) {
        const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        PARL_CHECK(error == std::errc() && at == text.data() + text.size(), "'{}', line {}: '{}' is not a number", path,
                   i + 1, text);
      }
      row.push_back(value);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

double rss_mb() {
  int64_t bytes = resident_bytes();
  std::error_code error;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task", error)) {  // children by the thread that made them
    std::ifstream in(task.path() / "children");
    for (int pid = 0; in >> pid;) bytes += resident_bytes(pid);
  }
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace parl
