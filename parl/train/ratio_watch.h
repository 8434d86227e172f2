// For tests: at lag 0 the learner's own pass over an actor's rollouts gives the behaviour policy back.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "parl/train/trainer.h"

namespace parl::testing {

// Expects it of every update, and keeps what says whether the rollouts were a trial.
class RatioWatch {
 public:
  void see(const UpdateInfo& u) {
    for (const auto& [name, value] : *u.stats) {
      if (name == "rho_max_deviation") {
        EXPECT_LT(value, 1e-4) << "update " << u.updates;
      }
      if (name == "entropy") entropy_ = std::min(entropy_, value);
    }
    truncated_ += u.batch->final_index.numel();
    terminated_ += u.batch->terminated.sum().item<int64_t>();
    if (u.batch->state.defined()) memory_ = std::max(memory_, u.batch->state.abs().max().item<double>());
  }
  // Ends of both kinds, and a policy that is not uniform any more.
  void expect_a_trial() const {
    EXPECT_GT(truncated_, 5);
    EXPECT_GT(terminated_, 1);
    EXPECT_LT(entropy_, 0.6);
  }
  double memory() const { return memory_; }  // the largest number of the stored ones

 private:
  int64_t truncated_ = 0, terminated_ = 0;
  double memory_ = 0, entropy_ = 1;
};

}  // namespace parl::testing
