// The fuzz targets over their corpus, and over each of its files with a few bytes changed: what needs no clang.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "parl/core/log.h"
#include "parl/remote/fuzz/fuzz.h"

namespace parl::fuzz {
namespace {

constexpr int kVariants = 20;  // of each file

using Named = std::pair<const char*, Target*>;

std::vector<uint8_t> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void change(std::vector<uint8_t>& bytes, std::mt19937& random) {
  for (int i = 0; i < 3 && !bytes.empty(); ++i) {
    const size_t at = random() % bytes.size();
    if (random() % 3 == 0) {
      bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      bytes[at] = static_cast<uint8_t>(random());
    }
  }
}

class Replay : public ::testing::TestWithParam<Named> {
 protected:
  void SetUp() override { log().set_level(spdlog::level::off); }
  void TearDown() override { log().set_level(level_); }

 private:
  const spdlog::level::level_enum level_ = log().level();
};

TEST_P(Replay, TheCorpusAndItsNeighbours) {
  const auto [name, target] = GetParam();
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(PARL_SOURCE_DIR) / "parl/remote/fuzz/corpus" / name))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_GT(files.size(), 10u);
  std::mt19937 random(1);
  target({});
  for (const auto& path : files) {
    SCOPED_TRACE(path.string());
    const std::vector<uint8_t> bytes = read_bytes(path);
    ASSERT_FALSE(bytes.empty());
    target(bytes);
    for (int i = 0; i < kVariants; ++i) {
      std::vector<uint8_t> variant = bytes;
      change(variant, random);
      target(variant);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Replay,
                         ::testing::Values(Named{"archive", archive}, Named{"frames", frames}, Named{"calls", calls},
                                           Named{"handshake", handshake}),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace parl::fuzz
