// Spaces as gym_worker.py describes them, and the plan of the shared memory. Texts are JSON. Internal to env_gym.
#pragma once

#include <cstddef>
#include <string>

#include "parl/env/env.h"

namespace parl::internal {

// Where things lie in an environment's slot of the shared memory, in bytes. Agreed upon with gym_worker.py.
struct GymMemory {
  static constexpr size_t kReward = 0, kTerminated = 8, kTruncated = 9, kStatus = 10, kSeed = 16, kHasSeed = 24,
                          kAction = 64;
  size_t observation = 0;  // within a slot
  size_t stride = 0;       // from one slot to the next
};

struct GymDescription {
  Space observation, action;
  int64_t max_episode_steps = 0;
  std::string version, python;  // of gymnasium; the interpreter's path
};
// Throws parl::Error when the text is not what the worker writes.
GymDescription parse_gym_description(const std::string& text);

// For `slots` environments; `text` gets the worker's half of the plan.
GymMemory plan_gym_memory(const EnvSpec& spec, int slots, std::string& text);

// The first message to the worker. Throws when kwargs is no JSON object.
std::string gym_request(const std::string& id, const std::string& kwargs, const std::vector<std::string>& imports,
                        bool mask_from_info);

// `kwargs` with further arguments: "true" and "1.5" as what they look like, the rest as texts. Returns JSON.
std::string merge_gym_kwargs(const std::string& kwargs, const std::vector<std::pair<std::string, std::string>>& more);

}  // namespace parl::internal
