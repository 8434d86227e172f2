// CentralOptions: how the learner's process chooses the actions of environments that hold no network
// (central_source.h). An algorithm asks for it by AlgorithmEntry::central.
#pragma once

#include <chrono>
#include <cstdint>

namespace parl {

struct CentralOptions {
  int64_t predictors = 1;            // threads, each with a copy of the network
  int64_t max_batch = 128;           // observations in one forward pass, at most
  std::chrono::nanoseconds wait{0};  // how long the first of a batch may wait for others; 0: what is there is taken
};

}  // namespace parl
