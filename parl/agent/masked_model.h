// MaskedModel: a model whose policy never takes what the environment's mask forbids.
//
// It stands around any model of an environment that has a part `action_mask` (env.h) and gives the logits of forbidden
// actions the value kIllegalLogit (categorical.h): their probability is exactly 0, entropies are those of the legal
// actions, a greedy action is legal, no gradient reaches a forbidden logit. So acting, learning and evaluation need not
// know of masks. Where a mask forbids all choices of an action, as at the end of a game, all count as legal.
// The weights have the inner model's names. Thread rule: the inner model's.
#pragma once

#include <memory>

#include "parl/agent/model.h"

namespace parl {

class MaskedModel : public Model {
 public:
  // spec.action_mask() must be there.
  MaskedModel(std::shared_ptr<Model> inner, ModelSpec spec);
  PolicyValue forward(const at::Tensor& obs) override;
  std::unique_ptr<Recording> record(const at::Tensor& obs) override;
  bool is_gaussian() const override { return false; }
  int64_t preferred_rows() const override { return inner_->preferred_rows(); }
  Model& inner() { return *inner_; }

 private:
  std::shared_ptr<Model> inner_;
  ModelSpec spec_;
};

}  // namespace parl
