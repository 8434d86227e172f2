// NonFiniteError: a NaN or inf where learning cannot go on. Names the tensor and carries what a dump needs.
#pragma once

#include <string>
#include <utility>

#include "parl/agent/batch.h"
#include "parl/agent/weights.h"
#include "parl/core/check.h"

namespace parl {

class NonFiniteError : public Error {
 public:
  NonFiniteError(std::string tensor, const std::string& message) : Error(message), tensor_(std::move(tensor)) {}
  NonFiniteError(std::string tensor, const std::string& message, Batch batch, Weights weights)
      : Error(message), tensor_(std::move(tensor)), batch_(std::move(batch)), weights_(std::move(weights)) {}

  const std::string& tensor() const { return tensor_; }  // "reward", "conv1.weight", "gradient of conv1.weight", ...
  const Batch& batch() const { return batch_; }          // what was being learnt; tensors undefined if nothing was
  const Weights& weights() const { return weights_; }    // parameters, and gradients as "gradient/<name>"

 private:
  std::string tensor_;
  Batch batch_;
  Weights weights_;
};

}  // namespace parl
