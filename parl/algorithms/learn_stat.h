// For tests: one of the numbers that learn() gives.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "parl/agent/algorithm.h"

namespace parl {

inline double stat(const LearnStats& stats, const std::string& name) {
  for (const auto& [key, value] : stats) {
    if (key == name) return value;
  }
  ADD_FAILURE() << "no statistic named " << name;
  return 0;
}

}  // namespace parl
