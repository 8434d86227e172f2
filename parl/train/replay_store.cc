#include "parl/train/replay_store.h"

#include <filesystem>

#include "parl/agent/tensor_array.h"
#include "parl/algorithms/replay.h"
#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/core/memory.h"

namespace parl {
namespace {

ReplayOwner* owner_of(Algorithm& algorithm) { return dynamic_cast<ReplayOwner*>(&algorithm); }

std::string megabytes(int64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

}  // namespace

void announce_replay(Algorithm& algorithm, const ModelSpec& spec, const TrainConfig& config) {
  ReplayOwner* owner = owner_of(algorithm);
  if (!owner) return;
  const ReplayMemory memory = owner->replay().memory_for(spec, config.rollout_length);
  const int64_t available = available_memory_bytes();
  const std::string doubt =
      memory.most > memory.least
          ? fmt::format(" where observations are stacks of frames, else {}", megabytes(memory.most))
          : "";
  log().info("replay buffer: up to {}{}; {} of memory are available", megabytes(memory.least), doubt,
             available > 0 ? megabytes(available) : "an unknown amount");
  if (config.ignore_memory || available <= 0) return;
  PARL_CHECK(memory.least <= available,
             "the replay buffer needs {} of memory, {} are available: use a smaller --replay-capacity, or "
             "--ignore-memory to start all the same",
             megabytes(memory.least), megabytes(available));
  owner->replay().limit_memory(available);
}

std::function<void(const std::string& path)> replay_writer(Algorithm& algorithm, const TrainConfig& config) {
  ReplayOwner* owner = owner_of(algorithm);
  if (!owner || !config.save_replay) return {};
  return [owner](const std::string& path) { owner->replay().save(path); };
}

void restore_replay(Algorithm& algorithm, const Checkpoint& checkpoint) {
  ReplayOwner* owner = owner_of(algorithm);
  if (!owner) return;
  const std::string file = std::filesystem::path(checkpoint.path) / kReplayFile;
  if (std::filesystem::exists(file)) {
    owner->replay().load(file);
    log().info("replay buffer: {} steps read back", owner->replay().size());
    return;
  }
  if (find_entry(checkpoint.algorithm_state, "replay/counters")) return;  // as earlier versions saved it
  owner->replay_lost();
  log().warn(
      "'{}' has no replay buffer (only the newest checkpoint keeps it, and none with --save-replay=false): "
      "learning pauses until enough steps are collected anew",
      checkpoint.path);
}

}  // namespace parl
