// Status: what a run tells its user while it goes on.
//
// On a terminal a block of three lines at the bottom is redrawn several times a second: progress bar, ETA, steps/s over
// 10, 60 and 300 s, return, policy lag, queue fill, share of time per phase, memory. Log lines scroll above it. On a
// pipe or in a file one plain line every few seconds. Everything goes to stderr: stdout belongs to results.
//
//   Status status("impala atari:pong", total_steps, start_steps, 5.0);
//   status.update(sample);      // cheap; call it after every learner update
//   status.finish();            // shows the last sample if it was not drawn yet, and leaves the lines standing
//
// Owner: one thread calls it; other threads may log meanwhile.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace parl {

struct StatusSample {
  int64_t steps = 0, updates = 0, episodes = 0;
  std::optional<double> return_mean;  // of the last `episodes_in_mean` episodes
  int64_t episodes_in_mean = 0;
  std::optional<double> last_eval;
  double policy_lag = 0;                                 // mean, in updates
  double queue_fill = 0;                                 // 0..1
  double env_share = 0, act_share = 0, learn_share = 0;  // of busy time
  int64_t actors_replaced = 0;
  double rss_mb = 0;
};

// Mean rate over the last 10, 60 and 300 s. Times are seconds from any origin, increasing.
class RateMeter {
 public:
  void add(double time, int64_t count);
  // Over the last `window` seconds, or since the first sample when that is later. 0 without two samples.
  double rate(double window) const;

 private:
  std::deque<std::pair<double, int64_t>> samples_;
};

// The texts, for any width; separate from the drawing so that they can be tested.
std::string status_block(const std::string& title, const StatusSample& sample, int64_t first_step, int64_t total_steps,
                         const RateMeter& rates, double seconds, int width);
std::string status_line(const StatusSample& sample, int64_t total_steps, const RateMeter& rates, double seconds);
std::string duration_text(double seconds);  // "48 s", "12:03", "2:10:07"

class Status {
 public:
  enum class Mode { kAuto, kTerminal, kLines, kOff };

  // line_seconds: between plain lines. `out` is not owned.
  Status(std::string title, int64_t total_steps, int64_t first_step, double line_seconds, Mode mode = Mode::kAuto,
         std::FILE* out = stderr);
  ~Status();
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;

  // Whether update() would draw now: ask first when a sample is costly.
  bool due() const;
  void update(const StatusSample& sample);
  void finish();

 private:
  double now() const;
  void draw(const StatusSample& sample);
  void erase();

  std::string title_;
  int64_t total_steps_, first_step_;
  double line_seconds_;
  Mode mode_;
  std::FILE* out_;
  double start_, last_drawn_ = -1e9;
  RateMeter rates_;
  StatusSample last_;
  bool undrawn_ = false;  // last_ is newer than what was drawn
  std::string drawn_;     // the block on the screen; guarded by the log's lock through on_log_line
};

}  // namespace parl
