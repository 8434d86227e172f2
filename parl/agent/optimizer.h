// FlatParameters: a module's parameters and gradients as views of two flat buffers, so that the gradient norm and the
// update are one pass each. FlatOptimizer: RMSProp, Adam and RAdam on them, equal to torch.optim's formulas.
//
// RMSProp (torch.optim.RMSprop, centered = false, momentum = 0): v = alpha v + (1 - alpha) g^2;  p -= lr g / (sqrt(v) +
// eps).
//   eps stands outside the square root. (TensorFlow's RMSProp, which the IMPALA paper used, has it inside: a large eps
//   such as 0.01 then means another step size.)
// Adam (torch.optim.Adam; Kingma & Ba 2014, arXiv 1412.6980): m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
//   p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps).
// RAdam (torch.optim.RAdam; Liu et al. 2019, arXiv 1908.03265): Adam whose step is scaled by the variance rectification
//   r_t, and a step of m / (1 - b1^t) alone while that is not defined (the first five steps with b2 = 0.999).
// Owner: one learner. Thread rule: one thread at a time. Memory layout (channels-last) of each parameter is kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "parl/agent/model.h"

namespace parl {

class FlatParameters {
 public:
  // Moves the model's parameters into one buffer and gives every one a gradient in another. Do not move the model to
  // another device afterwards.
  explicit FlatParameters(torch::nn::Module& model);
  // The same values as `source` (no copy: both models then read the same memory), with gradients of its own.
  FlatParameters(torch::nn::Module& model, const FlatParameters& source);

  at::Tensor& values() { return values_; }  // [n] float32
  at::Tensor& gradients() { return gradients_; }
  void zero_gradients() { gradients_.zero_(); }
  int64_t size() const { return values_.numel(); }  // floats, padding included; a multiple of kAlign
  static constexpr int64_t kAlign = 16;             // floats: every parameter starts on a cache line
  // L2 norm over all gradients, accumulated in double.
  double gradient_norm() const;
  // Adds the gradients of `others` (same layout), in their order, to [begin, end) of this one's and gives the sum of
  // squares of the result there. Bounds are multiples of kAlign; distinct ranges may be worked on by distinct threads.
  double reduce_gradients(const std::vector<FlatParameters*>& others, int64_t begin, int64_t end);
  // The name of the first parameter with a NaN or inf in its values or gradient; empty when there is none.
  std::string find_nonfinite(bool gradients) const;
  // Call after writing values() behind torch's back: caches that watch a parameter's version then notice.
  void bump_versions();

  struct Entry {
    std::string name;
    at::Tensor parameter, gradient;  // views
    int64_t offset = 0;              // in floats
  };
  const std::vector<Entry>& entries() const { return entries_; }
  // A view of `flat` (any buffer of this layout) shaped like entry i.
  at::Tensor view(const at::Tensor& flat, size_t i) const;

 private:
  void bind();
  at::Tensor values_, gradients_;
  std::vector<Entry> entries_;
};

struct OptimizerConfig {
  std::string kind = "rmsprop";  // rmsprop | adam | radam
  double eps = 0.01;
  double alpha = 0.99;                // RMSProp's decay
  double beta1 = 0.9, beta2 = 0.999;  // Adam's
};

class FlatOptimizer {
 public:
  FlatOptimizer(FlatParameters& parameters, OptimizerConfig config);
  // parameters -= update for gradients * gradient_scale, in one pass.
  void step(double learning_rate, double gradient_scale = 1.0);
  // The same in parts, for several threads: every range once, then finish_step() by one of them.
  void step_part(double learning_rate, double gradient_scale, int64_t begin, int64_t end);
  void finish_step();
  int64_t steps() const { return steps_; }

  // "optimizer/steps", "optimizer/v/<parameter>", "optimizer/m/<parameter>" (Adam, RAdam).
  void append_state(Weights& state) const;
  void set_state(const Weights& state);

 private:
  // p -= size * m / (sqrt(v) * root + eps), of Adam and RAdam at the next step.
  struct AdamStep {
    double size = 0, root = 0, eps = 0;
  };
  AdamStep adam_step(double learning_rate) const;

  FlatParameters& parameters_;
  OptimizerConfig config_;
  bool adam_;  // or RAdam
  at::Tensor m_, v_;
  int64_t steps_ = 0;
};

}  // namespace parl
