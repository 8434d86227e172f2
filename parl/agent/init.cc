#include "parl/agent/init.h"

#include <torch/torch.h>

namespace parl {

void orthogonal_init(const at::Tensor& weight, const at::Tensor& bias, double gain) {
  torch::NoGradGuard no_grad;
  at::Tensor matrix = torch::empty({weight.size(0), weight.numel() / weight.size(0)});
  torch::nn::init::orthogonal_(matrix, gain);
  at::Tensor target = weight;
  target.copy_(matrix.view(weight.sizes()));
  if (bias.defined()) {
    at::Tensor zero = bias;
    zero.zero_();
  }
}

void pixel_init(const at::Tensor& weight, const at::Tensor& bias, double gain) {
  orthogonal_init(weight, bias, gain);
  torch::NoGradGuard no_grad;
  at::Tensor target = weight;
  target.sub_(weight.mean({1, 2, 3}, true));
}

}  // namespace parl
