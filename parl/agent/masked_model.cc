#include "parl/agent/masked_model.h"

#include <torch/torch.h>

#include "parl/agent/categorical.h"
#include "parl/agent/obs_parts.h"
#include "parl/core/check.h"

namespace parl {
namespace {

at::Tensor mask_logits(const at::Tensor& logits, const at::Tensor& legal) {
  return logits.masked_fill(legal.logical_not(), kIllegalLogit);
}

class MaskedRecording : public Recording {
 public:
  MaskedRecording(std::unique_ptr<Recording> inner, at::Tensor legal)
      : Recording({mask_logits(inner->output().logits.detach(), legal), inner->output().value.detach()}),
        inner_(std::move(inner)),
        legal_(std::move(legal)) {}
  void backward(const at::Tensor& logits_gradient, const at::Tensor& value_gradient) override {
    inner_->backward(logits_gradient.masked_fill(legal_.logical_not(), 0), value_gradient);
  }

 private:
  std::unique_ptr<Recording> inner_;
  at::Tensor legal_;
};

}  // namespace

MaskedModel::MaskedModel(std::shared_ptr<Model> inner, ModelSpec spec)
    : inner_(std::move(inner)), spec_(std::move(spec)) {
  PARL_CHECK(spec_.action_mask() != nullptr, "the observation has no part 'action_mask'");
  PARL_CHECK(inner_->recurrent() == nullptr,
             "this environment forbids actions (a part 'action_mask'), and networks with a memory do not know of that: "
             "use one without");
  PARL_CHECK(!inner_->is_gaussian(), "a mask is for actions to choose, not for continuous ones");
  for (const auto& item : inner_->named_parameters(false)) register_parameter(item.key(), item.value());
  for (const auto& item : inner_->named_buffers(false)) register_buffer(item.key(), item.value());
  for (const auto& item : inner_->named_children()) register_module(item.key(), item.value());
}

PolicyValue MaskedModel::forward(const at::Tensor& obs) {
  PolicyValue out = inner_->forward(obs);
  return {mask_logits(out.logits, legal_actions(spec_, obs)), out.value};
}

std::unique_ptr<Recording> MaskedModel::record(const at::Tensor& obs) {
  torch::NoGradGuard no_grad;  // the inner model records for itself
  return std::make_unique<MaskedRecording>(inner_->record(obs), legal_actions(spec_, obs));
}

}  // namespace parl
