// PackedRollout: a rollout as it travels over a slow connection: of stacks of frames, each frame once.
//
// Observations of bytes [height, width, C] are taken for stacks of C frames, oldest first. An observation that the one
// before it in the same unroll foretells but for its newest frame travels as that frame; one whose frames are all
// equal (a reset) as one frame; any other, and the first of each unroll, whole. Final observations follow the one that
// their step was taken in. Each is compared before it is left out, so that unpacking gives every byte back, whatever
// the environment shows. Where nothing is gained (no stacks, floats) the rollout travels as it is.
// Values. Thread rule: pure functions. unpack_rollout throws parl::Error when the parts do not fit together.
#pragma once

#include "parl/data/rollout.h"

namespace parl {

struct PackedRollout {
  Rollout rollout;  // obs and final_obs empty where packed
  Shape obs_shape;  // [B, T+1, height, width, C] of what was taken out; empty: nothing was
  Array frames;     // [K, height * width] uint8
  Array kinds;      // [B * (T+1) + F] uint8: 0 newest frame, 1 one frame repeated, 2 whole
};
PARL_FIELDS(PackedRollout, rollout, obs_shape, frames, kinds);

PackedRollout pack_rollout(Rollout rollout);
Rollout unpack_rollout(PackedRollout packed);

}  // namespace parl
