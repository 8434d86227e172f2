#include "parl/models/internal/dense_net.h"

#ifdef PARL_HAS_DENSE_KERNELS

#include <algorithm>
#include <cstring>
#include <new>

#include "parl/models/internal/conv_kernels.h"

namespace parl::internal {

float* GrowingBuffer::reserve(size_t floats) {
  if (floats > size_) {
    const size_t bytes = (floats * sizeof(float) + 63) / 64 * 64;
    memory_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
    if (!memory_) throw std::bad_alloc();
    size_ = floats;
  }
  return memory_.get();
}

float* DensePass::begin(const std::vector<DenseLayer>& layers, int rows) {
  if (sizes_.empty()) {
    sizes_.push_back(layers.front().in);
    for (const DenseLayer& layer : layers) sizes_.push_back(layer.out);
    values_.resize(sizes_.size());
    gradients_.resize(sizes_.size());
  }
  rows_ = rows;
  return values_[0].reserve(static_cast<size_t>(rows * row_of(0)));
}

const float* DensePass::forward(const std::vector<DenseLayer>& layers) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const DenseLayer& layer = layers[i];
    const ptrdiff_t transposed_row = padded_row(layer.out);
    float* transposed = weights_.reserve(static_cast<size_t>(layer.in * transposed_row));
    transpose(layer.weight, layer.in, layer.out, layer.in, transposed, transposed_row);
    DenseProduct product;
    product.a = values_[i].get(), product.a_row = row_of(i);
    product.b = transposed, product.b_row = transposed_row;
    product.c = values_[i + 1].reserve(static_cast<size_t>(rows_ * row_of(i + 1))), product.c_row = row_of(i + 1);
    product.rows = rows_, product.columns = layer.out, product.depth = layer.in;
    product.bias = layer.bias;
    product.relu = i + 1 < layers.size();
    dense_product(product);
  }
  return values_.back().get();
}

float* DensePass::output_gradient() {
  return gradients_.back().reserve(static_cast<size_t>(rows_ * row_of(sizes_.size() - 1)));
}

void DensePass::parameter_gradients(const DenseLayer& layer, size_t i) {
  DenseProduct product;
  product.a = gradients_[i + 1].get(), product.a_row = 1, product.a_step = row_of(i + 1);
  product.b = values_[i].get(), product.b_row = row_of(i);
  product.c = layer.weight_gradient, product.c_row = layer.in;
  product.rows = layer.out, product.columns = layer.in, product.depth = rows_;
  product.add = true;
  dense_product(product);
  column_sums(gradients_[i + 1].get(), row_of(i + 1), rows_, layer.out, layer.bias_gradient);
}

void DensePass::through(const DenseLayer& layer, size_t i) {
  const ptrdiff_t row = row_of(i);
  float* padded = weights_.reserve(static_cast<size_t>(layer.out * row));
  for (int o = 0; o < layer.out; ++o) {
    std::memcpy(padded + o * row, layer.weight + static_cast<ptrdiff_t>(o) * layer.in,
                static_cast<size_t>(layer.in) * sizeof(float));
  }
  DenseProduct product;
  product.a = gradients_[i + 1].get(), product.a_row = row_of(i + 1);
  product.b = padded, product.b_row = row;
  product.c = gradients_[i].reserve(static_cast<size_t>(rows_ * row)), product.c_row = row;
  product.rows = rows_, product.columns = layer.in, product.depth = layer.out;
  product.mask = values_[i].get();
  dense_product(product);
}

void DensePass::backward(const std::vector<DenseLayer>& layers) {
  for (size_t i = layers.size(); i-- > 0;) {
    parameter_gradients(layers[i], i);
    if (i > 0) through(layers[i], i);
  }
}

void DensePass::input_gradient(const std::vector<DenseLayer>& layers, int first, int count, float* to, ptrdiff_t row) {
  for (size_t i = layers.size() - 1; i > 0; --i) through(layers[i], i);
  DenseProduct product;
  product.a = gradients_[1].get(), product.a_row = row_of(1);
  product.b = layers[0].weight + first, product.b_row = layers[0].in;
  product.c = to, product.c_row = row;
  product.rows = rows_, product.columns = count, product.depth = layers[0].out;
  dense_product(product);
}

}  // namespace parl::internal

#endif
