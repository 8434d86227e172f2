// RecordedEpisodes: whole episodes in a file, to learn from instead of an environment.
//
// One safetensors file (agent/safetensors.h; Python reads it in ten lines), S steps of E episodes one after another:
//   obs             [S, ...obs_shape]  what was seen, in the observation space's dtype
//   action          [S] int64, [S, K] int64 of K numbers, or [S, A] float32: the policy's own (agent/gaussian.h)
//   reward          [S] float32        the reward to learn from
//   episode_length  [E] int64          steps of each; they sum to S
//   terminated      [E] bool           how it ended: terminated, or else truncated
//   final_obs       [E, ...obs_shape]  the observation after its last step; zeros where it terminated
// and in the metadata: format "parl-episodes-1", env, contract, num_actions. Files of your own need no contract.
// Values; a RecordedEpisodes holds everything in memory. Errors: parl::Error naming the file and what is wrong in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parl/agent/spec.h"
#include "parl/core/rng.h"
#include "parl/data/rollout.h"

namespace parl {

struct RecordedEpisodes {
  std::string env, contract;
  int64_t num_actions = 0;  // 0: continuous
  Array obs, action, reward, episode_length, terminated, final_obs;

  int64_t steps() const { return reward.dim(0); }
  int64_t episodes() const { return episode_length.dim(0); }
  // Throws when the arrays do not fit together; `name` is for the message.
  void check(const std::string& name) const;
  // Throws unless a network of this spec can learn from it; with a mask, unless it allows every recorded action.
  void check_fits(const ModelSpec& spec, const std::string& env, const std::string& name) const;
  // Continuous actions: clips the components that have two bounds to -1..1, as the environment was given them
  // (map_action()), for policies that draw none beyond. How many steps that changed.
  int64_t clip_actions(const ModelSpec& spec);
};

void save_recording(const std::string& path, const RecordedEpisodes& recording);
RecordedEpisodes load_recording(const std::string& path);

// Unrolls from a recording, as an actor gives them: each starts at a step drawn at random, goes on through the ends of
// episodes into the next ones (and from the last into the first), and has what parl/data/rollout.h promises. Behaviour
// logits are zeros: nobody knows them. Equal seed and stream: equal unrolls.
class RecordedUnrolls {
 public:
  RecordedUnrolls(RecordedEpisodes recording, uint64_t seed, uint64_t stream);
  Rollout next(int64_t unrolls, int64_t length, int64_t policy_size);
  uint64_t position() const { return random_.position(); }
  void set_position(uint64_t position) { random_.set_position(position); }

 private:
  RecordedEpisodes recording_;
  std::vector<int64_t> episode_of_end_;  // [S]: which episode ends with this step; -1: none
  CounterRng random_;
};

}  // namespace parl
