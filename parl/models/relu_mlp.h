// ReluMlp: fully connected ReLU layers over the flattened observation, and one linear head: the policy's numbers, then
// the value. What continuous control uses: the deviations depend on the observation.
// MlpCritic: the same layers over observation and action, to one number.
//
// Weights: "layer1.weight", ..., "head.weight" [policy size + 1, hidden] and biases (the critic's head is [1, hidden]),
// begun as torch.nn.Linear begins. On a processor with AVX-512 both passes are hand-written
// (models/internal/dense_net.h); elsewhere torch's operators do the same. Observations of any shape and number type
// (uint8 counts as x / 255), but of one array: those of parts are dict_net.h's, and an error here. One thread at a
// time.
#pragma once

#include <memory>
#include <vector>

#include "parl/agent/model.h"
#include "parl/agent/q_model.h"

namespace parl {

namespace internal {
class DenseBackend;
}

// The layers and what runs them. Private to the two networks below.
class DenseLayers {
 public:
  DenseLayers(torch::nn::Module& owner, int64_t in, const std::vector<int64_t>& hidden, int64_t out);
  ~DenseLayers();

  // True: the hand-written passes run for this input.
  bool is_fused_for(const at::Tensor& input) const;
  std::shared_ptr<internal::DenseBackend> backend() const { return backend_; }
  const std::vector<std::pair<at::Tensor, at::Tensor>>& parameters() const { return parameters_; }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> parameters_;  // weight, bias
  std::shared_ptr<internal::DenseBackend> backend_;            // null without AVX-512
};

class ReluMlp : public Model {
 public:
  explicit ReluMlp(const ModelSpec& spec, const std::vector<int64_t>& hidden = {256, 256});
  PolicyValue forward(const at::Tensor& obs) override;
  std::unique_ptr<Recording> record(const at::Tensor& obs) override;
  bool is_gaussian() const override { return spec_.action_size > 0; }

  PolicyValue forward_with_torch(const at::Tensor& obs) const;
  bool is_fused_for(const at::Tensor& obs) const { return layers_.is_fused_for(obs); }

 private:
  ModelSpec spec_;
  DenseLayers layers_;
};

class MlpCritic : public QModel {
 public:
  explicit MlpCritic(const ModelSpec& spec, const std::vector<int64_t>& hidden = {256, 256});
  at::Tensor forward(const at::Tensor& obs, const at::Tensor& action) override;
  std::unique_ptr<QRecording> record(const at::Tensor& obs, const at::Tensor& action) override;

  at::Tensor forward_with_torch(const at::Tensor& obs, const at::Tensor& action) const;
  bool is_fused_for(const at::Tensor& obs) const { return layers_.is_fused_for(obs); }

 private:
  DenseLayers layers_;
};

}  // namespace parl
