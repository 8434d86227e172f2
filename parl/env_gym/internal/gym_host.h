// GymHost: a Python process with the environments of its slots. Internal to env_gym.
//
// A step is begun in a slot; when all slots that are taken have begun theirs, or when someone waits for one, they go to
// the process in one message, and its one answer ends them all.
// Thread rule: any thread, one call at a time does something (a mutex); a slot belongs to its GymEnv. Errors:
// parl::Error.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parl/env_gym/gym_env.h"
#include "parl/env_gym/internal/gym_spaces.h"
#include "parl/env_gym/internal/python_process.h"

namespace parl::internal {

class GymHost {
 public:
  // Starts the process and asks for the spaces.
  GymHost(GymOptions options, int slots);

  const EnvSpec& spec() const { return spec_; }
  const GymOptions& options() const { return options_; }
  int pid();

  bool has_room();
  // A free slot, or -1. leave() closes its environment.
  int enter();
  void leave(int slot);

  // Starts the process again where it is gone; makes the slot's environment where there is none.
  void reset(int slot, std::optional<uint64_t> seed, std::span<std::byte> obs);
  void begin_step(int slot, const Action& action);
  StepResult end_step(int slot, std::span<std::byte> obs);
  void render(int slot, Image& out);

 private:
  enum class State { kFree, kIdle, kBegun, kFlying, kArrived };
  struct Slot {
    State state = State::kFree;
    bool is_made = false;  // in this process
    std::optional<uint64_t> last_seed;
  };

  std::byte* place(int slot) { return memory_ + static_cast<size_t>(slot) * plan_.stride; }
  void start();
  void start_again_if_gone();
  // Takes off what has begun; waits for what flies.
  void fly();
  void land();
  // A message about one slot, and its answer.
  void ask(char command, int slot, const char* what);
  void wait(PythonProcess& from, const char* what, double timeout) const;

  const GymOptions options_;
  EnvSpec spec_;
  std::mutex mutex_;
  std::unique_ptr<PythonProcess> process_;
  GymMemory plan_;
  std::byte* memory_ = nullptr;
  std::vector<Slot> slots_;
  uint64_t restarts_ = 0;
  int flying_ = 0;
};

}  // namespace parl::internal
