// GymEnv: a Gymnasium environment in a Python process, behind Env.
//
// Observations, actions and rewards travel through shared memory; a byte on a socket wakes the other side. Spaces are
// asked for once, at the start. Box observations of float64 and float16 come as float32, uint16 as int32, uint32 and
// uint64 as int64; a Dict or Tuple as named parts (env/space.h). A Dict or Tuple of actions becomes one action of
// several numbers (all to choose, or all floats); Discrete spaces that begin elsewhere than at 0 begin at 0 here.
// Rewards, terminated, truncated and time limits are Gymnasium's; reset(seed) is Gymnasium's reset(seed=seed).
//
// A process has one environment, or a block of some (GymHosts). The steps of a block that were all begun (begin_step)
// are one message and one answer, and while one process steps, the others do.
//
// What Python raises is a parl::Error with its traceback; the process stays, and reset() goes on. A process that dies
// fails the step at once or within a second, for all its environments; one that does not answer for `timeout` seconds
// (a step; a block has the time of all its steps) is killed and fails it. Then reset() starts a new process, where the
// first episode is seeded from the last seed given. The process ends with its last environment or with the program,
// however that ends. Its standard output goes to standard error; Ctrl-C does not reach it, but ends the wait for a
// start (core/interrupt.h). Thread rule: an Env belongs to one thread at a time; several objects are independent, but
// those of one process wait for each other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parl/env/env.h"

namespace parl {

struct GymOptions {
  std::string id;                    // as gymnasium.make takes it
  std::string kwargs = "{}";         // a JSON object of further arguments for gymnasium.make
  std::vector<std::string> imports;  // modules that register environments
  std::string python;                // the interpreter; empty: as gym.h says
  double timeout = 60;               // seconds that a step, reset or picture may take
  double start_timeout = 60;         // seconds that the start of Python and the making of an environment may take
  bool mask_from_info = false;       // info["action_mask"] becomes a part of the observation
  int seed_bits = 64;                // seeds are cut to so many bits, for environments that take no larger ones
  bool operator==(const GymOptions&) const = default;
};

namespace internal {
class GymHost;
}

// Gives environments that the same thread makes with the same options a process together, up to a number. Thread rule:
// any thread.
class GymHosts {
 public:
  GymHosts();
  ~GymHosts();
  std::unique_ptr<Env> make(const GymOptions& options, int per_process);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class GymEnv final : public Env {
 public:
  explicit GymEnv(GymOptions options);  // in a process of its own
  explicit GymEnv(std::shared_ptr<internal::GymHost> host);
  ~GymEnv() override;

  const EnvSpec& spec() const override;
  void reset(std::optional<uint64_t> seed, std::span<std::byte> obs) override;
  StepResult step(const Action& action, std::span<std::byte> obs) override;
  bool can_begin_step() const override { return true; }
  void begin_step(const Action& action) override;
  void render(Image& out) override;

  int pid() const;  // of the Python process

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parl
