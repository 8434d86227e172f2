// NoisyModel: a network some of whose layers have noisy weights (Fortunato et al. 2018, "Noisy networks for
// exploration", arXiv 1706.10295), around any Model, unchanged.
//
// A noisy layer's weight is mu + sigma * f(e_out) f(e_in)^T and its bias mu + sigma * f(e_out), f(x) = sign(x)
// sqrt(|x|), with standard normal e_in, e_out (factorised noise; a convolution's inputs are all that its kernel sees).
// mu is the network's own parameter, under its own name; sigma is "sigma.<layer>.weight" (dots of <layer> as
// underscores) and begins at `sigma` / sqrt(inputs), as the paper has it. The noise is written into the network's
// parameters for the time of a pass, so that hand-written passes have it too, and out of them again before the pass
// ends: between passes the parameters are mu, to the bit. The gradient with respect to sigma is that to mu times the
// noise. Without noise (the beginning) it is the network itself. One noise serves all rows of a pass.
// Owner: one algorithm. Thread rule: one thread at a time; no pass while a recording waits for its backward().
#pragma once

#include <span>
#include <string>
#include <vector>

#include "parl/agent/model.h"
#include "parl/core/rng.h"

namespace parl {

// Standard normal numbers, two words of `rng` each.
void fill_normal(CounterRng& rng, std::span<float> out);

inline constexpr const char* kSigma = "sigma.";  // how the names of a NoisyModel's own parameters begin

class NoisyModel : public Model {
 public:
  // `layers`: modules with a weight of two or more dimensions, outputs first, by their names. Throws for others.
  NoisyModel(std::shared_ptr<Model> network, const std::vector<std::string>& layers, double sigma);

  PolicyValue forward(const at::Tensor& obs) override;
  std::unique_ptr<Recording> record(const at::Tensor& obs) override;
  bool is_gaussian() const override { return network_->is_gaussian(); }
  int64_t preferred_rows() const override { return network_->preferred_rows(); }

  // How many numbers a noise is made of: inputs and outputs of every layer.
  int64_t noise_size() const { return noise_size_; }
  // For the passes to come. In the order of the layers: e_in, then e_out.
  void set_noise(std::span<const float> normal);
  void clear_noise() { noisy_ = false; }

 private:
  friend class NoisyRecording;
  struct Tensor {
    at::Tensor mu, sigma;  // parameters
    at::Tensor noise;      // of the next pass: f(e_out) f(e_in)^T
    at::Tensor kept;       // mu, for the time of a pass
  };
  struct Layer {
    Tensor weight, bias;  // bias.mu is undefined where there is none
    int64_t inputs = 0, outputs = 0;
  };
  Tensor add_sigma(torch::nn::Module& holder, const std::string& name, const at::Tensor& mu, double value);
  std::vector<Tensor*> tensors();
  void put_in();
  void take_out() noexcept;

  std::shared_ptr<Model> network_;
  std::vector<Layer> layers_;
  int64_t noise_size_ = 0;
  bool noisy_ = false, is_in_ = false;
};

}  // namespace parl
