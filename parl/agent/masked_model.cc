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

// What of `inner` has names becomes `outer`'s, under the same ones.
void take_over(Model& inner, const ModelSpec& spec, Model& outer) {
  PARL_CHECK(spec.action_mask() != nullptr, "the observation has no part 'action_mask'");
  PARL_CHECK(!inner.is_gaussian(), "a mask is for actions to choose, not for continuous ones");
  for (const auto& item : inner.named_parameters(false)) outer.register_parameter(item.key(), item.value());
  for (const auto& item : inner.named_buffers(false)) outer.register_buffer(item.key(), item.value());
  for (const auto& item : inner.named_children()) outer.register_module(item.key(), item.value());
}

// Of a sequence's observations [B, L, bytes]: row b * L + l. They lie side by side, so that this is no copy of them.
at::Tensor legal_in(const ModelSpec& spec, const Sequence& in) { return legal_actions(spec, in.obs.flatten(0, 1)); }

Sequence side_by_side(Sequence in) {
  in.obs = in.obs.contiguous();  // once, not by everybody who looks at all rows
  return in;
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
  PARL_CHECK(inner_->recurrent() == nullptr, "a network with a memory is masked by a MaskedRecurrent");
  take_over(*inner_, spec_, *this);
}

PolicyValue MaskedModel::forward(const at::Tensor& obs) {
  PolicyValue out = inner_->forward(obs);
  return {mask_logits(out.logits, legal_actions(spec_, obs)), out.value};
}

std::unique_ptr<Recording> MaskedModel::record(const at::Tensor& obs) {
  torch::NoGradGuard no_grad;  // the inner model records for itself
  return std::make_unique<MaskedRecording>(inner_->record(obs), legal_actions(spec_, obs));
}

MaskedRecurrent::MaskedRecurrent(std::shared_ptr<Model> inner, ModelSpec spec)
    : owner_(std::move(inner)), inner_(owner_->recurrent()), spec_(std::move(spec)) {
  PARL_CHECK(inner_ != nullptr, "a network without a memory is masked by a MaskedModel");
  take_over(*owner_, spec_, *this);
}

StepOutput MaskedRecurrent::step(const at::Tensor& obs, const at::Tensor& state) {
  StepOutput out = inner_->step(obs, state);
  out.output.logits = mask_logits(out.output.logits, legal_actions(spec_, obs));
  return out;
}

SequenceOutput MaskedRecurrent::sequence(const Sequence& given) {
  const Sequence in = side_by_side(given);
  SequenceOutput out = inner_->sequence(in);
  out.output.logits = mask_logits(out.output.logits, legal_in(spec_, in));
  return out;
}

SequenceRecording MaskedRecurrent::record_sequence(const Sequence& given) {
  torch::NoGradGuard no_grad;  // the inner model records for itself
  const Sequence in = side_by_side(given);
  SequenceRecording out = inner_->record_sequence(in);
  return {std::make_unique<MaskedRecording>(std::move(out.recording), legal_in(spec_, in)), std::move(out.kept)};
}

std::shared_ptr<Model> masked(std::shared_ptr<Model> inner, const ModelSpec& spec) {
  if (inner->recurrent()) return std::make_shared<MaskedRecurrent>(std::move(inner), spec);
  return std::make_shared<MaskedModel>(std::move(inner), spec);
}

}  // namespace parl
