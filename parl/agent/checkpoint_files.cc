#include "parl/agent/checkpoint_files.h"

#include <algorithm>
#include <filesystem>

#include "parl/core/check.h"

namespace parl {
namespace {

namespace fs = std::filesystem;

bool holds(const fs::path& folder, const std::vector<std::string>& files) {
  return std::all_of(files.begin(), files.end(), [&](const std::string& file) { return fs::exists(folder / file); });
}

}  // namespace

std::string checkpoints_of(const std::string& run_dir) { return fs::path(run_dir) / "checkpoints"; }

std::vector<std::string> list_checkpoints(const std::string& run_dir, const std::vector<std::string>& files) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints_of(run_dir), error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step_") && !name.ends_with(".tmp") && holds(entry.path(), files)) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string find_checkpoint(const std::string& given, bool prefer_best, const std::vector<std::string>& files) {
  PARL_CHECK(fs::exists(given), "there is no run or checkpoint at '{}'", given);
  if (holds(given, files)) return given;
  const fs::path best = fs::path(checkpoints_of(given)) / "best";
  if (prefer_best && holds(best, files)) return best;
  const std::vector<std::string> all = list_checkpoints(given, files);
  PARL_CHECK(!all.empty(),
             "'{}' holds no checkpoint yet: give a run directory with checkpoints/, or a checkpoint folder", given);
  return all.back();
}

}  // namespace parl
