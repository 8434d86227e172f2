#include "parl/train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "parl/agent/checkpoint_files.h"
#include "parl/agent/safetensors.h"
#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/core/log.h"
#include "parl/train/byte_string.h"

namespace parl {

namespace fs = std::filesystem;

namespace {

// state.bin: what is not in weights.safetensors or config.json.
struct State {
  Progress progress;
  Weights algorithm_state;
  bool deterministic = false;
  std::vector<ActorState> actors;
  std::vector<Rollout> waiting;
};
PARL_FIELDS(State, progress, algorithm_state, deterministic, actors, waiting);

constexpr std::string_view kMagic = "PARLCKPT1\n";

// Layout: magic, schema (length, text), the state as a byte string.
std::string encode(const State& state) {
  Writer writer;
  wire::save(writer, state);
  const std::string schema = wire::schema<State>();
  std::string out(kMagic);
  append_u64(out, schema.size());
  out += schema;
  append_bytes(out, writer);
  return out;
}

State decode(const std::string& bytes, const std::string& path) try {
  PARL_CHECK(bytes.starts_with(kMagic), "'{}' is not a checkpoint", path);
  ByteCursor cursor(bytes, "'" + path + "'");
  cursor.take(kMagic.size());
  const auto schema = cursor.take(cursor.number());
  PARL_CHECK(schema == wire::schema<State>(), "'{}' was written by another version of this program: its layout differs",
             path);
  return from_byte_string<State>(cursor);
} catch (const CutShort& error) {
  throw DamagedCheckpoint(error.what());
}

void sync_folder(const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  PARL_CHECK_GE(fd, 0, "{}", file_error("open", folder.string(), errno));
  const int failed = fsync(fd) != 0 ? errno : 0;
  close(fd);
  PARL_CHECK(failed == 0 || failed == EINVAL, "{}", file_error("flush", folder.string(), failed));
}

// The replay buffer's file, or those of several agents.
void remove_replay(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(kReplayFile)) files.push_back(entry.path());
  }
  for (const fs::path& file : files) fs::remove(file, error);
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (fs::exists(to)) {  // the same step again: the old one gives way only when the new one is whole
    const fs::path old = to.string() + ".old.tmp";
    fs::remove_all(old, error);
    fs::rename(to, old, error);
  }
  fs::rename(from, to, error);
  PARL_CHECK(!error, "cannot rename '{}' to '{}': {}", from.string(), to.string(), error.message());
  sync_folder(to.parent_path());
  fs::remove_all(to.string() + ".old.tmp", error);
}

const std::vector<std::string> kFiles = {kStateFile, kWeightsFile};  // of a whole one

// Out of the way of those that come: by its number it would go on being the newest.
void set_aside(const fs::path& folder) {
  const fs::path aside = folder.parent_path() / ("damaged_" + folder.filename().string());
  std::error_code error;
  fs::remove_all(aside, error);
  rename_folder(folder, aside);
  log().warn("the damaged checkpoint is kept as '{}': delete it when you do not need it", aside.string());
}

}  // namespace

std::string save_checkpoint(const std::string& run_dir, const Checkpoint& c) {
  const fs::path folder = fs::path(checkpoints_of(run_dir)) / fmt::format("step_{:012}", c.progress.steps);
  const fs::path partial = folder.string() + ".tmp";
  std::error_code error;
  fs::remove_all(partial, error);
  fs::create_directories(partial, error);
  PARL_CHECK(!error, "cannot create '{}': {}", partial.string(), error.message());
  try {
    SafetensorsMetadata metadata = c.policy;
    metadata["steps"] = std::to_string(c.progress.steps);
    save_safetensors(partial / kWeightsFile, c.weights, metadata);
    write_file_atomically(partial / "config.json", c.config);
    write_file_atomically(partial / kStateFile,
                          encode({c.progress, c.algorithm_state, c.deterministic, c.actors, c.waiting}));
    write_manifest(partial);
    if (c.save_replay) c.save_replay(partial / kReplayFile);  // not in the manifest: older checkpoints lose theirs
    sync_folder(partial);
    rename_folder(partial, folder);
  } catch (...) {
    fs::remove_all(partial, error);
    throw;
  }
  return folder;
}

Checkpoint load_checkpoint(const std::string& path) {
  const fs::path folder(path);
  check_manifest(path);
  State state = decode(read_file(folder / kStateFile), folder / kStateFile);
  Checkpoint c;
  c.path = path;
  c.weights = load_safetensors(folder / kWeightsFile);
  c.config = read_file(folder / "config.json");
  c.progress = std::move(state.progress);
  c.algorithm_state = std::move(state.algorithm_state);
  c.deterministic = state.deterministic;
  c.actors = std::move(state.actors);
  c.waiting = std::move(state.waiting);
  return c;
}

Checkpoint load_checkpoint_weights(const std::string& path) {
  const fs::path folder(path);
  check_manifest(path, {kWeightsFile, "config.json"});
  Checkpoint c;
  SafetensorsMetadata metadata;
  c.weights = load_safetensors(folder / kWeightsFile, &metadata);
  c.config = read_file(folder / "config.json");
  const auto steps = metadata.find("steps");
  if (steps != metadata.end()) c.progress.steps = std::strtoll(steps->second.c_str(), nullptr, 10);
  c.policy = std::move(metadata);
  return c;
}

std::optional<Checkpoint> load_latest_checkpoint(const std::string& run_dir) {
  std::string first;
  const auto all = list_checkpoints(run_dir, kFiles);
  std::vector<std::string> damaged;
  for (auto path = all.rbegin(); path != all.rend(); ++path) {
    try {
      Checkpoint checkpoint = load_checkpoint(*path);
      for (const std::string& bad : damaged) set_aside(bad);
      return checkpoint;
    } catch (const DamagedCheckpoint& error) {
      if (first.empty()) first = error.what();
      damaged.push_back(*path);
      log().warn("{}; looking for an older checkpoint", error.what());
    }
  }
  if (damaged.empty()) return std::nullopt;
  throw DamagedCheckpoint(
      fmt::format("every checkpoint of '{}' is damaged ({}); begin anew with another --run", run_dir, first));
}

std::optional<std::string> latest_checkpoint(const std::string& run_dir) {
  const auto all = list_checkpoints(run_dir, kFiles);
  if (all.empty()) return std::nullopt;
  return all.back();
}

std::string find_checkpoint(const std::string& given, bool prefer_best) {
  return find_checkpoint(given, prefer_best, kFiles);
}

void mark_best(const std::string& run_dir, const std::string& path) {
  const fs::path best = fs::path(checkpoints_of(run_dir)) / "best";
  const fs::path partial = best.string() + ".tmp";
  std::error_code error;
  fs::remove_all(partial, error);
  fs::create_directories(partial, error);
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().filename().string().starts_with(kReplayFile)) continue;
    const fs::path target = partial / entry.path().filename();
    fs::create_hard_link(entry.path(), target, error);
    if (error) fs::copy_file(entry.path(), target, fs::copy_options::overwrite_existing, error);
    PARL_CHECK(!error, "cannot copy '{}' to '{}': {}", entry.path().string(), target.string(), error.message());
  }
  rename_folder(partial, best);
}

void prune_checkpoints(const std::string& run_dir, int64_t keep) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints_of(run_dir), error)) {
    if (entry.path().filename().string().ends_with(".tmp")) fs::remove_all(entry.path(), error);
  }
  const auto all = list_checkpoints(run_dir, kFiles);
  const auto surplus = static_cast<int64_t>(all.size()) - std::max<int64_t>(keep, 1);
  for (int64_t i = 0; i < surplus; ++i) fs::remove_all(all[static_cast<size_t>(i)], error);
  for (size_t i = 0; i + 1 < all.size(); ++i) remove_replay(all[i]);
}

}  // namespace parl
