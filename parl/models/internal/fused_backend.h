// Between Cnn's tensors and FusedCnn's pointers: packs the weights when they changed, owns the activations.
//
// Weights count as changed when a parameter's data pointer or version counter did (torch bumps the counter in every
// in-place operation; FlatOptimizer does it by hand). Owner: a Cnn and its recordings. Thread rule: one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "parl/agent/model.h"
#include "parl/models/cnn.h"
#include "parl/models/internal/fused_cnn.h"

namespace parl::internal {

struct NetworkTensors {
  std::vector<at::Tensor> weights, biases;
  at::Tensor policy_weight, policy_bias, value_weight, value_bias;  // undefined: no heads
  std::vector<at::Tensor> all() const;
};

class FusedBackend {
 public:
  // Null when this machine or this network is not supported.
  static std::shared_ptr<FusedBackend> make(const ModelSpec& spec, const std::vector<ConvLayer>& layers,
                                            NetworkTensors tensors);
  ~FusedBackend();

  PolicyValue forward(const at::Tensor& obs);
  std::unique_ptr<Recording> record(const std::shared_ptr<FusedBackend>& self, const at::Tensor& obs);

 private:
  friend class FusedRecording;
#ifdef PARL_HAS_CONV_KERNELS
  FusedBackend(const FusedCnn::Shape& shape, std::vector<int64_t> obs_shape, NetworkTensors tensors);
  at::Tensor check_obs(const at::Tensor& obs) const;
  void refresh();
  PolicyValue run(const at::Tensor& obs, FusedCnn::Activations* keep);
  FusedCnn::Weights pointers() const;

  struct Key {
    const void* data = nullptr;
    uint32_t version = 0;
    bool operator==(const Key&) const = default;
  };
  std::vector<Key> current_key() const;

  FusedCnn net_;
  std::vector<int64_t> obs_shape_;
  NetworkTensors tensors_;
  NetworkTensors packed_;  // channels-last views (or copies) of what was packed last
  std::vector<Key> key_;
  std::vector<std::unique_ptr<FusedCnn::Activations>> free_;  // waiting for the next recording
#endif
};

}  // namespace parl::internal
