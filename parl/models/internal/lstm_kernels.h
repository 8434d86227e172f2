// One step of an LSTM's cells over `rows` rows on plain floats, between the matrix products (models/lstm.h). Free of
// torch; loops that compilers turn into vector instructions. exp is within 2e-7 of the exact one, relative.
// Pure functions; any thread.
#pragma once

#include <cstdint>

namespace parl::internal {

// `size` floats of row i begin at data + i * stride; `gates` rows have 4 * size: i, f, g, o.
struct LstmStep {
  int64_t rows, size;
  float* gates;  // in (forward): before their functions; then: after
  int64_t gates_stride;
  const float* before;  // c before the step
  int64_t before_stride;
  const float* carried;  // per row: 1, or 0 where the memory before the step is zero
  int64_t carried_stride;
  float *h, *c, *tanh_c;  // after the step
  int64_t stride;         // of these three
};

void lstm_forward(const LstmStep& step);

// d_h, d_c: the gradients of h and c, stride as theirs, null: zero. later_h, later_c [rows, size], dense: those that
// the next step's backward pass left, zeros at the last; they are written over. Leaves d_gates, strides as gates', and
// in later_c the gradient of `before`.
struct LstmStepGradient {
  const float *d_h, *d_c;
  float *later_h, *later_c, *d_gates;
};
void lstm_backward(const LstmStep& step, const LstmStepGradient& gradient);

}  // namespace parl::internal
