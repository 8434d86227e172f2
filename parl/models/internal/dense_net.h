// DensePass: forward and backward of fully connected layers (ReLU between them, the last one linear) on one AVX-512
// core, on torch's own weight memory [out, in]. It is the memory of one pass and is used again and again: nothing is
// allocated once it has grown. Every output depends on its own row alone, to the bit.
// Thread rule: one thread at a time. Without AVX-512 the header is empty (PARL_HAS_DENSE_KERNELS undefined).
#pragma once

#include "parl/models/internal/dense_kernels.h"

#ifdef PARL_HAS_DENSE_KERNELS

#include <cstdlib>
#include <memory>
#include <vector>

namespace parl::internal {

struct DenseLayer {
  int in = 0, out = 0;
  const float* weight = nullptr;  // [out, in]
  const float* bias = nullptr;    // [out]
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
};

// Grows, never shrinks; 64-byte aligned; contents are not kept when it grows.
class GrowingBuffer {
 public:
  float* reserve(size_t floats);
  float* get() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float[], Free> memory_;
  size_t size_ = 0;
};

// What one forward pass leaves for its backward pass: inputs of all layers, and the output.
class DensePass {
 public:
  // The place for the input: `rows` rows, input_row() floats from one to the next.
  float* begin(const std::vector<DenseLayer>& layers, int rows);
  ptrdiff_t input_row() const { return row_of(0); }
  // The output: output_row() floats from row to row.
  const float* forward(const std::vector<DenseLayer>& layers);
  ptrdiff_t output_row() const { return row_of(values_.size() - 1); }

  // The place for d loss / d output, rows of output_row().
  float* output_gradient();
  // Adds d loss / d parameter where the layers say.
  void backward(const std::vector<DenseLayer>& layers);
  // d loss / d input, columns [first, first + count) only, rows of `row` floats.
  void input_gradient(const std::vector<DenseLayer>& layers, int first, int count, float* to, ptrdiff_t row);

 private:
  ptrdiff_t row_of(size_t i) const { return padded_row(sizes_[i]); }
  void parameter_gradients(const DenseLayer& layer, size_t i);
  // From the gradient of layer i's output (gradients_[i + 1]) to that of its input.
  void through(const DenseLayer& layer, size_t i);

  int rows_ = 0;
  std::vector<int> sizes_;                // of the input and of every layer's output
  std::vector<GrowingBuffer> values_;     // input, then every layer's output
  std::vector<GrowingBuffer> gradients_;  // of the same
  GrowingBuffer weights_;                 // one layer's, transposed or with longer rows
};

}  // namespace parl::internal

#endif
