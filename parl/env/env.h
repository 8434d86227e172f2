// Env: one environment with Gymnasium's contract.
//
//   auto env = registry.make({.id = "CartPole-v1"});
//   std::vector<std::byte> obs(env->spec().observation.bytes());
//   env->reset(7, obs);                              // seeded; every seed counts, 0 too
//   StepResult r = env->step(Action::discrete(1), obs);
//   if (r.terminated || r.truncated) env->reset({}, obs);
//
// Observations are written into the place that the caller gives (spec().observation.bytes() bytes, any alignment that
// fits the dtype; a multiple of 8 where there are parts); step() and reset() allocate nothing once an environment is
// warm. A Dict or Tuple observation is one block with named parts (space.h). A part `action_mask` says which actions
// are legal (kActionMask). terminated: the task ended (value 0 after it). truncated: a limit cut it (the value after it
// is bootstrapped). When both are set, terminated wins for learning. step() after an end, before reset(), is an error.
// Determinism: reset(seed) followed by the same actions gives the same numbers, bit for bit; reset without a seed goes
// on with the generator of the last seeded reset.
// Thread rule: an Env belongs to one thread at a time. Errors: parl::Error.
// Source of the contract: Gymnasium's Env API (terminated/truncated of v0.26 and later).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parl/core/check.h"
#include "parl/env/space.h"

namespace parl {

// A part of this name, uint8 or bool, one element for each choice of each action in their order: not 0 where it is
// legal. What learns and acts here then never takes another; where all choices of an action are 0, all count as legal.
inline constexpr const char* kActionMask = "action_mask";

struct EnvSpec {
  std::string id;                 // "CartPole-v1", "atari:pong"
  Box observation;                // of a space that is no Box: the block in which its parts lie (set_observation)
  Space action;                   // Discrete, MultiDiscrete, MultiBinary, or a float32 Box
  int64_t max_episode_steps = 0;  // agent steps until truncation; 0: no limit
  int frames_per_step = 1;        // emulator frames behind one agent step (frame skip)
  std::string contract;           // one line that names every setting that changes results; printed when a run starts
  // Of an environment that several agents share (parallel_env.h): all their names; empty: there is one agent.
  std::vector<std::string> agents = {};
  std::vector<SpacePart> parts = {};  // what lies where in the observation; empty: it is the Box `observation`

  void set_observation(const Space& space);              // any space: sets `observation` and `parts`
  const SpacePart& part(const std::string& name) const;  // throws with the near names
  // Whether an observation (aligned as for reset()) lies in its space: empty, or what does not, in words.
  std::string outside(const std::byte* obs) const;
};

// One action: an index for Discrete spaces, the floats of a Box, or the numbers of a MultiDiscrete or MultiBinary space
// (spans are not owned; valid during the call).
struct Action {
  int64_t index = 0;
  std::span<const float> values = {};
  std::span<const int64_t> indices = {};
  static Action discrete(int64_t index) { return {index, {}, {}}; }
  static Action continuous(std::span<const float> values) { return {0, values, {}}; }
  static Action multi(std::span<const int64_t> indices) { return {0, {}, indices}; }
};

// Throws unless the action is one of spec.action: an index out of range, a number too many, NaN. A Box's bounds are not
// asked for: environments clip.
void check_action(const EnvSpec& spec, const Action& action);

struct StepResult {
  float reward = 0;  // the reward to learn from (after clipping wrappers)
  bool terminated = false;
  bool truncated = false;
  bool done() const { return terminated || truncated; }
};

// A finished episode as people count it: raw score of the full game (never per life), length in agent steps.
struct Episode {
  double raw_return = 0;
  int64_t length = 0;
  bool truncated = false;
  std::vector<std::pair<std::string, double>> scalars;  // the environment's own figures, by name
};

struct Image {  // RGB, 8 bits each, row by row
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

class Env {
 public:
  virtual ~Env() = default;
  virtual const EnvSpec& spec() const = 0;
  virtual void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) = 0;
  virtual StepResult step(const Action& action, std::span<std::byte> obs) = 0;

  // What the next step() or reset() will be told. A VectorEnv says it to all its environments before it steps or resets
  // the first of them: environments that belong together (parallel_env.h) need that; the others do nothing.
  virtual void prepare(const Action& /*action*/) {}
  virtual void prepare_reset(std::optional<uint64_t> /*seed*/) {}
  // Where steps happen elsewhere, in another process: begin_step(action) starts the step and returns, and the step()
  // that follows, with the same action, waits for it. So a vector has all its environments at work at once.
  virtual bool can_begin_step() const { return false; }
  virtual void begin_step(const Action& /*action*/) {}

  // Moves the episodes that finished since the last call to the end of `out`. Environments without a recorder of their
  // own get one from the EpisodeStatistics wrapper.
  virtual bool records_episodes() const { return false; }
  virtual void take_episodes(std::vector<Episode>& /*out*/) {}

  // User scalars of the episode so far (name, value): averaged over episodes in metrics and TensorBoard.
  virtual void scalars(std::vector<std::pair<std::string, double>>& /*out*/) const {}

  // The current state as a picture. Default: an error that says that this environment cannot draw itself.
  virtual void render(Image& out);

  // The whole state, RNG included: load_state(save_state()) and the same actions give the same future, bit for bit.
  virtual bool can_save_state() const { return false; }
  virtual std::vector<std::byte> save_state() const;
  virtual void load_state(std::span<const std::byte> state);
};

}  // namespace parl
