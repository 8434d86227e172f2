// GradientReducer: what data-parallel learners of one run share. train/learner_group.h is one over the network.
//
// Every learner makes the same calls in the same order with values of the same shape; each call waits for the others,
// and gives all of them the same bits. Thread rule: the learner's thread. Throws parl::Error when another learner is
// gone or does not answer.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace parl {

class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  virtual int rank() const = 0;  // 0 to size() - 1
  virtual int size() const = 0;
  // Replaces every value by its sum over all learners, added up in an order that is fixed.
  virtual void sum(at::Tensor& flat) = 0;  // [n] float32, contiguous, on any device
  virtual void sum(std::span<double> values) = 0;
};

}  // namespace parl
