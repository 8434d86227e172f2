// Between torch's tensors and DensePass: fully connected networks whose passes are hand-written where the processor
// can. Owner: a network and its recordings. Thread rule: one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

#include "parl/models/internal/dense_net.h"

namespace parl::internal {

using DenseParameters =
    std::vector<std::pair<at::Tensor, at::Tensor>>;  // weight [out, in] and bias [out] of each layer

// ReLU between the layers, by torch's operators.
at::Tensor dense_with_torch(const DenseParameters& parameters, at::Tensor x);
// obs [N, ...] -> [N, size] float32; uint8 counts as x / 255.
at::Tensor flat_floats(const at::Tensor& obs);

#ifdef PARL_HAS_DENSE_KERNELS
class DenseBackend {
 public:
  explicit DenseBackend(DenseParameters parameters) : parameters_(std::move(parameters)) {}
  bool fits(const at::Tensor& input) const { return input.is_cpu() && parameters_.front().first.is_cpu(); }

  // A pass that nobody holds.
  std::shared_ptr<DensePass> take();
  // The layers as they are now. Valid until the next call.
  const std::vector<DenseLayer>& layers();
  // The same with the places of their gradients, which are made where there are none.
  const std::vector<DenseLayer>& layers_with_gradients();

 private:
  DenseParameters parameters_;
  std::vector<DenseLayer> layers_;
  std::vector<std::shared_ptr<DensePass>> passes_;
};

// Rows of `columns` floats, contiguous, to and from rows of another length.
void copy_rows(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row, int64_t rows, int64_t columns);
#endif

}  // namespace parl::internal
