// Schedule: a value as a function of agent steps, written as text.
//
//   "6e-4"                                    constant
//   "0:6e-4,3e6:0"                            linear between the points, constant outside
//   "0:6e-4,100%:0"                           the same with shares of a run's steps: resolve_shares() makes numbers of
//                                             them, which the training loop does before it makes an algorithm
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
  // Throws where points are still shares of a run, but for step 0.
  double at(double agent_steps) const;
  // Throws when a value is not within low..high; `name` is the setting's.
  void check_within(double low, double high, const char* name) const;

 private:
  struct Point {
    double step, value;
    bool share = false;  // `step` is a percentage
  };
  std::vector<Point> points_;
  bool steps_ = false;
};

// The text with "N%:" written as steps of a run of `steps`; other texts as they are.
std::string resolve_shares(const std::string& text, double steps);

}  // namespace parl
