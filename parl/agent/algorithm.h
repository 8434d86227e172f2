// Algorithm: how to act and how to learn, for any Model. Knows neither environments nor remote objects.
//
// Thread rule: one thread at a time; an actor has an Algorithm object of its own (made without optimizer).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parl/agent/batch.h"
#include "parl/agent/model.h"

namespace parl {

struct ActOutput {
  at::Tensor action;      // [N] int64, [N, K] int64 of K numbers, or [N, A] float32: a Gaussian policy's own
  at::Tensor logits;      // [N, A] float32: the behaviour logits; [N, 2A] of a Gaussian policy
  at::Tensor value;       // [N] float32
  at::Tensor state = {};  // [N, S] float32: a recurrent network's memory after obs; undefined: feed-forward
};

struct ActInput {
  at::Tensor obs;            // [N, ...obs_shape]
  at::Tensor uniforms = {};  // as sample() takes them; undefined: the greedy action
  at::Tensor state = {};     // [N, S]: the memory before obs, zero at an episode's start; undefined: feed-forward
};

// Named numbers of one learn() call, in a fixed order: "loss", "grad_norm", "entropy", ...
using LearnStats = std::vector<std::pair<std::string, double>>;

inline constexpr const char* kExploration = "exploration/";
// The entries that are the network's: all but those of kExploration.
Weights network_weights(Weights weights);

class Algorithm {
 public:
  virtual ~Algorithm() = default;

  // Draws actions from the policy: action i from the uniform number uniforms[i] in [0, 1) (inverse CDF over the exact
  // softmax, or over the Gaussian: then uniforms [N, A]; K numbers an action: [N, K]), so that every environment's own
  // random stream decides and nothing depends on the batch's composition.
  virtual ActOutput sample(const at::Tensor& obs, const at::Tensor& uniforms) = 0;
  // The greedy action.
  virtual ActOutput predict(const at::Tensor& obs) = 0;
  // Either of them, with the memory of a recurrent network: what training, evaluation and remote actors call. The
  // algorithms that learn sequences override it.
  virtual ActOutput act(const ActInput& in) {
    return in.uniforms.defined() ? sample(in.obs, in.uniforms) : predict(in.obs);
  }
  // One update from one batch (possibly several passes). `agent_steps`: steps collected so far; schedules depend on it.
  virtual LearnStats learn(const Batch& batch, int64_t agent_steps) = 0;

  // Asked by a learn() that may make very many updates (from replay), between them. Once it says true, that learn()
  // leaves off: what it owes is kept, saved with the state, and made up at the start of the next call.
  virtual void interrupt_when(std::function<bool()> asked) { interrupt_ = std::move(asked); }

  virtual Model& model() = 0;
  // Threads that learn() keeps busy.
  virtual int64_t learner_threads() const { return 1; }
  // What an actor needs to act as this one does: the model's weights, and whatever else belongs to acting in training,
  // in entries whose names begin with kExploration: those are no part of the network, and a run that begins with
  // another one's weights, or a program that only plays, leaves them out.
  virtual Weights get_weights() { return model().get_weights(); }
  virtual void set_weights(const Weights& weights) { model().set_weights(weights); }
  // While on, this object's sample() plays for evaluation: without the exploration that only training wants. What
  // get_weights() gives and what learn() does stay as they are.
  virtual void play_for_evaluation(bool /*on*/) {}

  // Everything but the model's weights that the next learn() depends on: optimizer moments, counters, RNG.
  virtual Weights get_state() const = 0;
  virtual void set_state(const Weights& state) = 0;

 protected:
  bool interrupted() const { return interrupt_ && interrupt_(); }

 private:
  std::function<bool()> interrupt_;
};

}  // namespace parl
