// Where a run keeps its checkpoints: RUN/checkpoints/step_<steps>/, one folder each, and best/, a copy of the best one.
// A folder gets its name when all is in it, so that one that is there is whole; unfinished ones end in ".tmp".
// What was written is checked against manifest.txt in the folder, its last file: size and CRC-32C of each other one.
// Thread rule: any thread. Errors: parl::Error naming the folder.
#pragma once

#include <string>
#include <vector>

#include "parl/core/check.h"

namespace parl {

inline constexpr const char* kWeightsFile = "weights.safetensors";  // all that playing needs
inline constexpr const char* kStateFile = "state.bin";              // what continuing needs besides

inline constexpr const char* kManifestFile = "manifest.txt";

// A checkpoint's bytes are not those that were written: truncated, or changed.
class DamagedCheckpoint : public Error {
 public:
  using Error::Error;
};

// Lists what is in `folder`. Flushed to disk.
void write_manifest(const std::string& folder);
// Throws DamagedCheckpoint unless `files` (none: all that are listed) are as they were written. A folder without a
// manifest, from an earlier version of this program, passes.
void check_manifest(const std::string& folder, const std::vector<std::string>& files = {});

// RUN/checkpoints
std::string checkpoints_of(const std::string& run_dir);
// The step_* folders of a run that hold `files`, oldest first.
std::vector<std::string> list_checkpoints(const std::string& run_dir, const std::vector<std::string>& files);
// A folder that holds `files`, for what the user names: such a folder itself, or a run directory: its best/ if that is
// preferred and there, else its newest.
std::string find_checkpoint(const std::string& run_or_checkpoint, bool prefer_best,
                            const std::vector<std::string>& files);

}  // namespace parl
