// masked(): a model whose policy never takes what the environment's mask forbids.
//
// It stands around any model of an environment that has a part `action_mask` (env.h) and gives the logits of forbidden
// actions the value kIllegalLogit (categorical.h): their probability is exactly 0, entropies are those of the legal
// actions, a greedy action is legal, no gradient reaches a forbidden logit. So acting, learning and evaluation need not
// know of masks. Where a mask forbids all choices of an action, as at the end of a game, all count as legal.
// A network with a memory stays one: step by step and in sequences it is as if masked; the memory knows of no masks.
// The weights have the inner model's names. Thread rule: the inner model's.
#pragma once

#include <memory>

#include "parl/agent/recurrent.h"

namespace parl {

class MaskedModel : public Model {
 public:
  // spec.action_mask() must be there.
  MaskedModel(std::shared_ptr<Model> inner, ModelSpec spec);
  PolicyValue forward(const at::Tensor& obs) override;
  std::unique_ptr<Recording> record(const at::Tensor& obs) override;
  bool is_gaussian() const override { return false; }
  int64_t preferred_rows() const override { return inner_->preferred_rows(); }
  void observe(const at::Tensor& obs) override { inner_->observe(obs); }
  Model& inner() { return *inner_; }

 private:
  std::shared_ptr<Model> inner_;
  ModelSpec spec_;
};

class MaskedRecurrent : public RecurrentModel {
 public:
  // spec.action_mask() must be there, and inner->recurrent().
  MaskedRecurrent(std::shared_ptr<Model> inner, ModelSpec spec);
  int64_t state_size() const override { return inner_->state_size(); }
  StepOutput step(const at::Tensor& obs, const at::Tensor& state) override;
  SequenceOutput sequence(const Sequence& in) override;
  SequenceRecording record_sequence(const Sequence& in) override;
  bool is_gaussian() const override { return false; }
  int64_t preferred_rows() const override { return inner_->preferred_rows(); }
  void observe(const at::Tensor& obs) override { inner_->observe(obs); }

 private:
  std::shared_ptr<Model> owner_;
  RecurrentModel* inner_;  // the same
  ModelSpec spec_;
};

// Whichever of the two the model needs.
std::shared_ptr<Model> masked(std::shared_ptr<Model> inner, const ModelSpec& spec);

}  // namespace parl
