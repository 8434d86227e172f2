#include "parl/train/status.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "parl/core/clock.h"
#include "parl/core/log.h"

namespace parl {
namespace {

constexpr double kRedrawSeconds = 0.25;
constexpr double kKeptSeconds = 310;  // of samples
constexpr int kBarWidth = 30;

std::mutex screen_mutex;  // the block on the screen: drawn by the run's thread, erased by any thread that logs

double clock_seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

std::string grouped(int64_t number) {  // 1,234,567
  std::string digits = fmt::format("{}", std::abs(number));
  for (auto i = static_cast<ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), ",");
  return number < 0 ? "-" + digits : digits;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string bar(double share, int width) {
  const int full = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width));
  std::string text(static_cast<size_t>(full), '=');
  if (full < width) text += '>';
  text.resize(static_cast<size_t>(width), ' ');
  return "[" + text + "]";
}

std::string return_text(const StatusSample& s) {
  std::string text = "no finished episode yet";
  if (s.return_mean) {
    text = fmt::format("return {:.2f} ({} of {} episode{})", *s.return_mean, s.episodes_in_mean, grouped(s.episodes),
                       s.episodes == 1 ? "" : "s");
  }
  if (s.last_eval) text += fmt::format(", evaluated {:.2f}", *s.last_eval);
  return text;
}

int terminal_width(std::FILE* out) {
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

}  // namespace

void RateMeter::add(double time, int64_t count) {
  // Samples closer than a tenth of a second to the one before last replace the last one: the memory is bounded.
  if (samples_.size() >= 2 && time - samples_[samples_.size() - 2].first < 0.1) samples_.pop_back();
  samples_.emplace_back(time, count);
  while (samples_.size() > 2 && samples_[1].first < time - kKeptSeconds) samples_.pop_front();
}

double RateMeter::rate(double window) const {
  if (samples_.size() < 2) return 0;
  const double from = samples_.back().first - window;
  auto first = std::lower_bound(samples_.begin(), samples_.end(), from,
                                [](const auto& sample, double t) { return sample.first < t; });
  if (first == samples_.end() - 1) --first;  // at least one interval
  const double seconds = samples_.back().first - first->first;
  return seconds > 0 ? static_cast<double>(samples_.back().second - first->second) / seconds : 0;
}

std::string duration_text(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string status_block(const std::string& title, const StatusSample& s, int64_t first_step, int64_t total_steps,
                         const RateMeter& rates, double seconds, int width) {
  const double rate = rates.rate(60);
  const double share = total_steps > 0 ? static_cast<double>(s.steps) / static_cast<double>(total_steps) : 0;
  const std::string eta =
      rate > 0 && s.steps > first_step ? duration_text(static_cast<double>(total_steps - s.steps) / rate) : "-";
  std::string lines[] = {
      fmt::format("{}  {} {:.1f} %  {} / {} steps  {} gone, ETA {}", title, bar(share, kBarWidth), 100 * share,
                  grouped(s.steps), grouped(total_steps), duration_text(seconds), eta),
      fmt::format("{}  steps/s {:.0f} | {:.0f} | {:.0f} (10 | 60 | 300 s)  updates {}", return_text(s), rates.rate(10),
                  rate, rates.rate(300), grouped(s.updates)),
      fmt::format("policy lag {:.2f}  queue {}  time: env {}, act {}, learn {}  memory {:.0f} MiB{}", s.policy_lag,
                  percent(s.queue_fill), percent(s.env_share), percent(s.act_share), percent(s.learn_share), s.rss_mb,
                  s.actors_replaced ? fmt::format("  actors replaced {}", s.actors_replaced) : ""),
  };
  std::string block;
  for (std::string& line : lines) block += line.substr(0, static_cast<size_t>(std::max(width - 1, 1))) + "\n";
  return block;
}

std::string status_line(const StatusSample& s, int64_t total_steps, const RateMeter& rates, double seconds) {
  return fmt::format(
      "{} steps {}/{} ({:.1f} %)  {}  steps/s {:.0f}  updates {}  lag {:.2f}  queue {}  env/act/learn "
      "{:.0f}/{:.0f}/{:.0f} %  {:.0f} MiB{}\n",
      duration_text(seconds), s.steps, total_steps,
      total_steps > 0 ? 100.0 * static_cast<double>(s.steps) / static_cast<double>(total_steps) : 0.0, return_text(s),
      rates.rate(10), s.updates, s.policy_lag, percent(s.queue_fill), 100 * s.env_share, 100 * s.act_share,
      100 * s.learn_share, s.rss_mb, s.actors_replaced ? fmt::format("  actors replaced {}", s.actors_replaced) : "");
}

Status::Status(std::string title, int64_t total_steps, int64_t first_step, double line_seconds, Mode mode,
               std::FILE* out)
    : title_(std::move(title)),
      total_steps_(total_steps),
      first_step_(first_step),
      line_seconds_(line_seconds),
      mode_(mode),
      out_(out),
      start_(clock_seconds()) {
  if (mode_ == Mode::kAuto) mode_ = ::isatty(::fileno(out)) ? Mode::kTerminal : Mode::kLines;
  rates_.add(0, first_step);
  if (mode_ == Mode::kTerminal) {
    before_log_line([this] {
      const std::lock_guard lock(screen_mutex);
      erase();
      last_drawn_ = now() + 0.05 - kRedrawSeconds;  // the line comes first, then the block again
    });
  }
}

Status::~Status() {
  if (mode_ == Mode::kTerminal) before_log_line({});
}

double Status::now() const { return clock_seconds() - start_; }

bool Status::due() const {
  if (mode_ == Mode::kOff) return false;
  const std::lock_guard lock(screen_mutex);
  return now() - last_drawn_ >= (mode_ == Mode::kTerminal ? kRedrawSeconds : line_seconds_);
}

void Status::update(const StatusSample& sample) {
  rates_.add(now(), sample.steps);
  last_ = sample;
  undrawn_ = true;
  if (due()) draw(sample);
}

void Status::finish() {
  if (mode_ == Mode::kOff) return;
  if (undrawn_) draw(last_);
  const std::lock_guard lock(screen_mutex);
  drawn_.clear();  // the lines stay
}

void Status::draw(const StatusSample& sample) {
  const double t = now();
  const std::lock_guard lock(screen_mutex);
  if (mode_ == Mode::kTerminal) {
    const std::string block = status_block(title_, sample, first_step_, total_steps_, rates_, t, terminal_width(out_));
    erase();
    std::fputs(block.c_str(), out_);
    drawn_ = block;
  } else {
    std::fputs(status_line(sample, total_steps_, rates_, t).c_str(), out_);
  }
  std::fflush(out_);
  last_drawn_ = t;
  undrawn_ = false;
}

// Up one line and clear it, for each line drawn. The caller holds screen_mutex.
void Status::erase() {
  for (const char c : drawn_) {
    if (c == '\n') std::fputs("\x1b[1A\x1b[2K", out_);
  }
  std::fputs(drawn_.empty() ? "" : "\r", out_);
  std::fflush(out_);
  drawn_.clear();
}

}  // namespace parl
