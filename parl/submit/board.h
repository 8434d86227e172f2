// What is known of each worker, and what the user sees of it: a line on stderr when states change, and the workers' own
// lines, "[worker 3 hostb] text", which also go to a file of their own. Thread rule: one thread.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace parl::submit {

enum class WorkerState { kPending, kRunning, kEnded, kFailed };  // kFailed: for good

class Board {
 public:
  using Print = std::function<void(const std::string& line)>;
  // `directory`: for worker-<i>.log; empty: no files. `is_quiet`: lines go to the files alone. `print`: empty: stderr.
  Board(int workers, std::string directory, bool is_quiet, Print print = {});

  // `where`: the host, kept until another is named. `why`: said at once.
  void set(int worker, WorkerState state, const std::string& where = "", const std::string& why = "");
  void line(int worker, std::string_view text);
  void say(const std::string& text);  // "[submit] text"

  WorkerState state(int worker) const { return workers_.at(static_cast<size_t>(worker)).state; }
  int count(WorkerState state) const;
  int size() const { return static_cast<int>(workers_.size()); }
  // "workers: 2 running (0-1), 1 pending (2)"
  std::string summary() const;
  // Prints the summary if it has changed; at most every second, unless `now`.
  void show(bool now = false);

 private:
  struct Worker {
    WorkerState state = WorkerState::kPending;
    std::string where;
  };
  std::vector<Worker> workers_;
  const std::string directory_;
  const bool is_quiet_;
  Print print_;
  std::string shown_;
  std::chrono::steady_clock::time_point shown_at_{};
};

}  // namespace parl::submit
