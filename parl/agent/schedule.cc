#include "parl/agent/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "parl/core/check.h"

namespace parl {
namespace {

double parse_number(const std::string& text, const std::string& whole) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  PARL_CHECK(!text.empty() && end == text.c_str() + text.size() && std::isfinite(value),
             "schedule '{}': '{}' is not a number; write 6e-4, or 0:6e-4,3e6:0, or step 0:1e-3,20e6:5e-4", whole, text);
  return value;
}

}  // namespace

Schedule::Schedule(const std::string& text) {
  std::string rest = text;
  if (rest.rfind("step ", 0) == 0) {
    steps_ = true;
    rest = rest.substr(5);
  }
  if (rest.find(':') == std::string::npos) {
    points_.push_back({0, parse_number(rest, text)});
    return;
  }
  size_t begin = 0;
  while (begin <= rest.size()) {
    const size_t end = std::min(rest.find(',', begin), rest.size());
    const std::string item = rest.substr(begin, end - begin);
    const size_t colon = item.find(':');
    PARL_CHECK(colon != std::string::npos, "schedule '{}': '{}' is not STEP:VALUE", text, item);
    std::string step = item.substr(0, colon);
    const bool share = step.ends_with('%');
    if (share) step.pop_back();
    points_.push_back({parse_number(step, text), parse_number(item.substr(colon + 1), text), share});
    PARL_CHECK(!share || (points_.back().step >= 0 && points_.back().step <= 100),
               "schedule '{}': '{}%' is not a share of a run: 0%..100%", text, step);
    const size_t last = points_.size() - 1;
    PARL_CHECK(last == 0 || points_[last - 1].share != share || points_[last - 1].step < points_[last].step,
               "schedule '{}': the steps must ascend", text);
    begin = end + 1;
  }
}

void Schedule::check_within(double low, double high, const char* name) const {
  for (const Point& point : points_) {
    PARL_CHECK(point.value >= low && point.value <= high, "{} has {} at step {}, expected {}..{}", name, point.value,
               point.step, low, high);
  }
}

double Schedule::at(double agent_steps) const {
  if (agent_steps <= 0 && points_.front().step >= 0) return points_.front().value;  // whatever the shares are of
  for (const Point& point : points_) {
    PARL_CHECK(!point.share, "a schedule has points at shares of a run ('{}%'): give steps, or use resolve_shares()",
               point.step);
  }
  size_t next = 0;
  while (next < points_.size() && points_[next].step <= agent_steps) ++next;
  if (next == 0) return points_.front().value;
  const Point& low = points_[next - 1];
  if (next == points_.size() || steps_) return low.value;
  const Point& high = points_[next];
  return low.value + (high.value - low.value) * (agent_steps - low.step) / (high.step - low.step);
}

std::string resolve_shares(const std::string& text, double steps) {
  std::string out;
  size_t from = 0;
  for (size_t at = text.find("%:"); at != std::string::npos; at = text.find("%:", from)) {
    const size_t before = text.find_last_of(" ,", at);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    const double share = parse_number(text.substr(begin, at - begin), text);
    out += text.substr(from, begin - from) + fmt::format("{}", share / 100 * steps);
    from = at + 1;
  }
  return out + text.substr(from);
}

}  // namespace parl
