// Simulator: the remote object of central inference: a vector of environments without a network (central_source.h).
//
// Its environments and their streams are those that an Actor of the same ActorConfig has; what the config says of
// networks is not used. Thread rule: one thread, its object's own. Throws what the environment throws.
#pragma once

#include <memory>
#include <vector>

#include "parl/core/fields.h"
#include "parl/data/rollout.h"
#include "parl/remote/remote.h"
#include "parl/train/actor.h"

namespace parl {

// What one step of all B environments gave. After an end, obs is the reset observation.
struct SimulatorStep {
  Array obs;                      // [B, ...obs_shape]
  Array reward;                   // [B] float32
  Array terminated;               // [B] bool
  Array truncated;                // [B] bool
  Array final_index;              // [F] int64, ascending: the environments that were truncated and not terminated
  Array final_obs;                // [F, ...obs_shape]: their last observations
  std::vector<Episode> episodes;  // that ended
  double env_seconds = 0;
};
PARL_FIELDS(SimulatorStep, obs, reward, terminated, truncated, final_index, final_obs, episodes, env_seconds);

struct SimulatorState {
  bool known = false;  // false: these environments cannot save their state
  std::vector<uint8_t> bytes;
};
PARL_FIELDS(SimulatorState, known, bytes);

class Simulator {
 public:
  explicit Simulator(ActorConfig config);
  Simulator(Simulator&&) noexcept;
  ~Simulator();

  Array reset();  // the first observations, [B, ...obs_shape]
  // actions: the policy's own, [B] int64 or [B, A] float32 (agent/gaussian.h).
  SimulatorStep step(const Array& actions);
  SimulatorState save_state();
  void load_state(const SimulatorState& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
PARL_REMOTE_CLASS(Simulator, reset, step, save_state, load_state);

}  // namespace parl
