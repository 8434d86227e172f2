#include "parl/train/replay_store.h"

#include <filesystem>
#include <vector>

#include "parl/agent/tensor_array.h"
#include "parl/algorithms/independent.h"
#include "parl/algorithms/replay.h"
#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/core/memory.h"

namespace parl {
namespace {

struct Part {
  std::string suffix;  // of the file's name
  ReplayOwner* owner;
};

// The algorithm's buffer, or those of the agents that learn independently.
std::vector<Part> parts_of(Algorithm& algorithm) {
  std::vector<Part> parts;
  if (auto* owner = dynamic_cast<ReplayOwner*>(&algorithm)) parts.push_back({"", owner});
  auto* each = dynamic_cast<Independent*>(&algorithm);
  for (size_t i = 0; each && i < each->agents().size(); ++i) {
    for (Part& part : parts_of(each->algorithm_of(i)))
      parts.push_back({"." + each->agents()[i] + part.suffix, part.owner});
  }
  return parts;
}

std::string megabytes(int64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

}  // namespace

bool has_replay(Algorithm& algorithm) { return !parts_of(algorithm).empty(); }

void announce_replay(Algorithm& algorithm, const ModelSpec& spec, const TrainConfig& config) {
  const std::vector<Part> parts = parts_of(algorithm);
  if (parts.empty()) return;
  const auto count = static_cast<int64_t>(parts.size());
  ReplayMemory memory = parts[0].owner->replay().memory_for(spec, config.rollout_length);
  memory.least *= count;
  memory.most *= count;
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
  for (const Part& part : parts) part.owner->replay().limit_memory(available / count);
}

std::function<void(const std::string& path)> replay_writer(Algorithm& algorithm, const TrainConfig& config) {
  std::vector<Part> parts = parts_of(algorithm);
  if (parts.empty() || !config.save_replay) return {};
  return [parts = std::move(parts)](const std::string& path) {
    for (const Part& part : parts) part.owner->replay().save(path + part.suffix);
  };
}

void restore_replay(Algorithm& algorithm, const Checkpoint& checkpoint) {
  for (const Part& part : parts_of(algorithm)) {
    const std::string file = (std::filesystem::path(checkpoint.path) / kReplayFile).string() + part.suffix;
    if (std::filesystem::exists(file)) {
      try {
        part.owner->replay().load(file);
        log().info("replay buffer: {} steps read back", part.owner->replay().size());
        continue;
      } catch (const std::exception& error) {
        std::error_code failed;
        std::filesystem::rename(file, file + ".damaged", failed);
        part.owner->replay_lost();
        log().warn("{}; it is set aside as '{}.damaged': learning pauses until enough steps are collected anew",
                   error.what(), file);
        continue;
      }
    }
    if (find_entry(checkpoint.algorithm_state, "replay/counters")) continue;  // as earlier versions saved it
    part.owner->replay_lost();
    log().warn(
        "'{}' has no replay buffer (only the newest checkpoint keeps it, and none with --save-replay=false): "
        "learning pauses until enough steps are collected anew",
        checkpoint.path);
  }
}

}  // namespace parl
