// Rollout: what one actor produced in one call: B unrolls of T steps under one weight version. Free of torch; it
// travels between engines (moved in the thread engine, in shared memory in the process engine).
//
// Unroll-major: element [b, t]. obs row 0 of a rollout is row T of the same environment's previous rollout; after an
// end obs[b, t+1] is the reset observation, and the final observation of truncated steps travels in final_obs. Shapes
// and dtypes are those of parl/agent/batch.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parl/core/fields.h"
#include "parl/core/stats.h"
#include "parl/env/env.h"
#include "parl/wire/array.h"

namespace parl {

PARL_FIELDS(Episode, raw_return, length, truncated, scalars);

struct Rollout {
  int64_t actor = 0;              // which actor
  int64_t sequence = 0;           // number of this rollout among the actor's, from 0
  int64_t version = 0;            // the weight version that acted
  Array obs;                      // [B, T+1, ...obs_shape]
  Array action;                   // [B, T] int64
  Array behaviour_logits;         // [B, T, A] float32
  Array reward;                   // [B, T] float32
  Array terminated;               // [B, T] bool
  Array truncated;                // [B, T] bool
  Array final_index;              // [F] int64, ascending
  Array final_obs;                // [F, ...obs_shape]
  Array state;                    // [B, S] float32: a recurrent network's memory before obs[:, 0]; else empty
  Moments returns;                // of the discounted return so far after each step, for normalised rewards
  std::vector<Episode> episodes;  // finished during this rollout
  double env_seconds = 0;         // wall time spent in environments, in acting, and in all
  double act_seconds = 0;
  double wall_seconds = 0;

  int64_t unrolls() const { return reward.dim(0); }
  int64_t length() const { return reward.dim(1); }
  int64_t steps() const { return unrolls() * length(); }
};
PARL_FIELDS(Rollout, actor, sequence, version, obs, action, behaviour_logits, reward, terminated, truncated,
            final_index, final_obs, state, returns, episodes, env_seconds, act_seconds, wall_seconds);

}  // namespace parl
