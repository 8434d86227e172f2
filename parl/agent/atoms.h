// Atoms: returns as categorical distributions over fixed values (C51: Bellemare, Dabney, Munos 2017, arXiv 1707.06887).
//
// The atoms are z_i = v_min + i * (v_max - v_min) / (atoms - 1). A network gives outputs() logits for an observation:
// those of action a at [a * atoms, (a + 1) * atoms); with `dueling` (Wang et al. 2016, arXiv 1511.06581, as Hessel et
// al. 2018, arXiv 1710.02298, put the two together) the state value's come last, and action a's joined logits are
// value_i + advantage_ai - mean over actions of advantage_i. Values; pure functions; any thread. Errors: parl::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace parl {

struct Atoms {
  int64_t count = 51;
  double v_min = -10, v_max = 10;
  bool dueling = false;

  // Throws naming the setting.
  void check() const;
  int64_t outputs(int64_t actions) const { return (actions + (dueling ? 1 : 0)) * count; }
  // Of a network with so many outputs; throws when they are no whole number of actions.
  int64_t actions(int64_t outputs) const;
  double gap() const { return (v_max - v_min) / static_cast<double>(count - 1); }
  at::Tensor values() const;  // [atoms] float32

  // logits [N, outputs] -> [N, A, atoms]: log-probabilities.
  at::Tensor log_probs(const at::Tensor& logits) const;
  // logits [N, outputs] -> [N, A]: the distributions' means.
  at::Tensor q_values(const at::Tensor& logits) const;
  // d loss / d logits [N, outputs], from that of the joined logits [N, atoms] of the actions taken [N] (int64).
  at::Tensor logits_gradient(const at::Tensor& joined, const at::Tensor& action, int64_t actions) const;
  // The distribution of reward + discount * Z on the atoms, Z being distributed by probs [N, atoms]; reward, discount
  // [N]. What falls beside an atom is shared by its neighbours, what falls outside goes to the edge. CPU, float32.
  at::Tensor project(const at::Tensor& reward, const at::Tensor& discount, const at::Tensor& probs) const;
};

}  // namespace parl
