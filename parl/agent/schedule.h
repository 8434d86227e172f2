// Schedule: a value as a function of agent steps, written as text.
//
//   "6e-4"                                    constant
//   "0:6e-4,3e6:0"                            linear between the points, constant outside
//   "step 0:1e-3,20e6:5e-4,40e6:1e-4"         each value holds until the next point (PARL's piecewise scheduler)
// Points must ascend. Throws parl::Error for anything else.
#pragma once

#include <string>
#include <vector>

namespace parl {

class Schedule {
 public:
  explicit Schedule(const std::string& text);
  explicit Schedule(double constant) : points_{{0.0, constant}} {}
  double at(double agent_steps) const;
  // Throws when a value is not within low..high; `name` is the setting's.
  void check_within(double low, double high, const char* name) const;

 private:
  struct Point {
    double step, value;
  };
  std::vector<Point> points_;
  bool steps_ = false;
};

}  // namespace parl
