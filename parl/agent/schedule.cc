#include "parl/agent/schedule.h"

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
    points_.push_back({parse_number(item.substr(0, colon), text), parse_number(item.substr(colon + 1), text)});
    PARL_CHECK(points_.size() == 1 || points_[points_.size() - 2].step < points_.back().step,
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
  size_t next = 0;
  while (next < points_.size() && points_[next].step <= agent_steps) ++next;
  if (next == 0) return points_.front().value;
  const Point& low = points_[next - 1];
  if (next == points_.size() || steps_) return low.value;
  const Point& high = points_[next];
  return low.value + (high.value - low.value) * (agent_steps - low.step) / (high.step - low.step);
}

}  // namespace parl
