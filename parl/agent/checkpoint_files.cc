#include "parl/agent/checkpoint_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>

#include "parl/core/check.h"
#include "parl/core/crc32c.h"
#include "parl/core/files.h"

namespace parl {
namespace {

namespace fs = std::filesystem;

bool holds(const fs::path& folder, const std::vector<std::string>& files) {
  return std::all_of(files.begin(), files.end(), [&](const std::string& file) { return fs::exists(folder / file); });
}

constexpr const char* kFirstLine = "parl checkpoint, CRC-32C and bytes of each file:";
constexpr size_t kPiece = size_t{1} << 20;

struct Listed {
  uint32_t sum = 0;
  uint64_t bytes = 0;
  bool operator==(const Listed&) const = default;
};
using Manifest = std::map<std::string, Listed>;

Listed measure(const fs::path& path) {
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (!file) raise("{}", file_error("open", path.string(), errno));
  const auto piece = std::make_unique<char[]>(kPiece);
  Listed out;
  while (const size_t got = std::fread(piece.get(), 1, kPiece, file.get())) {
    out.sum = crc32c(piece.get(), got, out.sum);
    out.bytes += got;
  }
  if (std::ferror(file.get())) raise("{}", file_error("read", path.string(), errno));
  return out;
}

std::string text_of(const Manifest& manifest) {
  std::string text = fmt::format("{}\n", kFirstLine);
  for (const auto& [name, listed] : manifest) text += fmt::format("{:08x} {} {}\n", listed.sum, listed.bytes, name);
  return text + fmt::format("{} files\n", manifest.size());
}

// What is damaged itself does not read as it was written.
Manifest read_manifest(const fs::path& path) {
  const std::string text = read_file(path);
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  Manifest out;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    Listed listed;
    std::string name;
    words >> std::hex >> listed.sum >> std::dec >> listed.bytes >> std::ws;
    std::getline(words, name);
    if (!name.empty()) out[name] = listed;
  }
  if (text_of(out) != text) throw DamagedCheckpoint(fmt::format("'{}' is damaged", path.string()));
  return out;
}

}  // namespace

void write_manifest(const std::string& folder) {
  Manifest manifest;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != kManifestFile)
      manifest[entry.path().filename()] = measure(entry.path());
  write_file_atomically(fs::path(folder) / kManifestFile, text_of(manifest));
}

void check_manifest(const std::string& folder, const std::vector<std::string>& files) {
  const fs::path path = fs::path(folder) / kManifestFile;
  if (!fs::exists(path)) return;
  const Manifest manifest = read_manifest(path);
  std::vector<std::string> wanted = files;
  if (wanted.empty())
    for (const auto& [name, listed] : manifest) wanted.push_back(name);
  for (const std::string& name : wanted) {
    const fs::path file = fs::path(folder) / name;
    const auto listed = manifest.find(name);
    if (listed == manifest.end())
      throw DamagedCheckpoint(fmt::format("'{}' is not in the manifest beside it", file.string()));
    if (!fs::exists(file)) throw DamagedCheckpoint(fmt::format("'{}' is missing", file.string()));
    const Listed now = measure(file);
    if (now.bytes != listed->second.bytes)
      throw DamagedCheckpoint(fmt::format("'{}' is damaged: it has {} bytes, and {} were written", file.string(),
                                          now.bytes, listed->second.bytes));
    if (now.sum != listed->second.sum)
      throw DamagedCheckpoint(
          fmt::format("'{}' is damaged: its bytes are not those that were written (CRC-32C {:08x}, not {:08x})",
                      file.string(), now.sum, listed->second.sum));
  }
}

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
