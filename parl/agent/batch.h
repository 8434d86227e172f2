// Batch: what an on-policy algorithm learns from. Tensors in, losses out: no environment, no remote object in sight.
//
// B unrolls of T steps. Unroll-major: element [b, t], so that a minibatch of whole unrolls is a slice without a copy.
//   obs               [B, T+1, ...obs_shape]  dtype of the observation space (images stay uint8 until in the network)
//   action            [B, T]      int64 (discrete), [B, T, K] int64 (K numbers an action), or [B, T, A] float32: a
//   Gaussian
//                                policy's own action
//   behaviour_logits  [B, T, A]   float32: logits of the policy that acted; [B, T, 2A]: its means and log deviations
//   reward            [B, T]      float32, result of action[t] in obs[t]
//   terminated        [B, T]      bool
//   truncated         [B, T]      bool; where both are set, terminated wins
//   final_index       [F]         int64: b * T + t of every truncated (and not terminated) step, ascending
//   final_obs         [F, ...]    the observation after that step (obs[t+1] is the reset observation); undefined if F =
//   0
//   state             [B, S]      float32: a recurrent network's memory before obs[:, 0]; undefined: feed-forward
// Policy lag: `version` [B] int64, the weight version that produced each unroll.
#pragma once

#include <ATen/core/Tensor.h>

namespace parl {

struct Batch {
  at::Tensor obs, action, behaviour_logits, reward, terminated, truncated, final_index, final_obs, version;
  at::Tensor state = {};

  int64_t unrolls() const { return reward.size(0); }
  int64_t length() const { return reward.size(1); }
  int64_t steps() const { return unrolls() * length(); }

  // Throws parl::Error naming the tensor when shapes or dtypes disagree.
  void check() const;
  // Unrolls [first, first + count): views, with final_index rebased.
  Batch slice(int64_t first, int64_t count) const;
  // The unrolls named by `index` [n] int64, in that order (copies).
  Batch select(const at::Tensor& index) const;
  Batch to(at::Device device) const;
};

}  // namespace parl
