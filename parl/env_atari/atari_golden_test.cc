// The environment against data recorded without it (testdata/record_golden.py: ale-py and OpenCV). Integers and CRCs
// are equal; resized pictures differ by at most one level in less than 1 % of the pixels. Each wrapper switched off
// makes the comparison fail, so that it does see them.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "parl/env_atari/atari_env.h"

namespace parl {
namespace {

struct Golden {
  std::map<std::string, std::string> header;
  std::vector<uint8_t> data;
  int64_t number(const std::string& key) const { return std::stoll(header.at(key)); }
};

Golden read_golden(const std::string& game, const std::string& preset) {
  const std::string path =
      std::string(PARL_SOURCE_DIR) + "/parl/env_atari/testdata/" + game + "_" + preset + ".golden.gz";
  gzFile file = gzopen(path.c_str(), "rb");
  PARL_CHECK(file != nullptr, "cannot read {}", path);
  std::vector<uint8_t> all, block(1 << 16);
  for (int n; (n = gzread(file, block.data(), static_cast<unsigned>(block.size()))) > 0;) {
    all.insert(all.end(), block.begin(), block.begin() + n);
  }
  gzclose(file);
  const auto line_end = std::find(all.begin(), all.end(), '\n');
  Golden golden;
  std::istringstream words(std::string(all.begin(), line_end));
  for (std::string word; words >> word;) {
    golden.header[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  golden.data.assign(line_end + 1, all.end());
  return golden;
}

struct Row {
  uint8_t kind, action;
  int16_t points;
  int8_t clipped;
  uint8_t lives, flags;
  uint32_t before, last, maximum;
};

Row read_row(const uint8_t* at) {
  Row row{};
  const auto get = [&](auto& value) {
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
  };
  get(row.kind), get(row.action), get(row.points), get(row.clipped), get(row.lives), get(row.flags);
  get(row.before), get(row.last), get(row.maximum);
  return row;
}
constexpr size_t kRowBytes = 1 + 1 + 2 + 1 + 1 + 1 + 3 * 4;
constexpr size_t kPictureBytes = 84 * 84 + 42 * 42;

uint32_t crc(const std::vector<uint8_t>& picture) {
  return static_cast<uint32_t>(crc32(0, picture.data(), static_cast<unsigned>(picture.size())));
}

// Plays the recorded actions; returns the first difference, or "" when there is none.
class Comparison {
 public:
  Comparison(const Golden& golden, EnvArgs changes)
      : golden_(golden), size_(golden.header.at("preset") == "v5" ? 42 : 84) {
    const std::string noops = golden.header.at("noops");
    EnvArgs args{{"preset", golden.header.at("preset")},
                 {"noops", noops == "0" ? "0" : noops + ".." + noops},
                 {"max_frames", golden.header.at("max_frames")},
                 {"size", std::to_string(size_)}};
    for (const auto& [name, value] : changes) args[name] = value;
    options_ = parse_atari_options(args, EnvMode::kTraining);
    env_ = std::make_unique<AtariEnv>(golden.header.at("game"), options_);
    obs_.resize(env_->spec().observation.bytes());
  }

  std::string run() {
    if (std::get<Discrete>(env_->spec().action).n != golden_.number("actions")) return "number of actions";
    const uint8_t* at = golden_.data.data();
    const uint8_t* const end = at + golden_.data.size();
    bool done = true, first = true;
    int row_number = 0;
    while (at < end) {
      if (*at == 2) {
        if (std::string what = compare_pictures(at + 1); !what.empty())
          return fmt::format("row {}: {}", row_number, what);
        at += 1 + kPictureBytes;
        continue;
      }
      const Row row = read_row(at);
      at += kRowBytes;
      ++row_number;
      std::string what = play(row, done, first);
      if (!what.empty()) return fmt::format("row {}: {}", row_number, what);
    }
    return {};
  }
  int pictures() const { return pictures_; }
  int64_t pixels_off() const { return pixels_off_; }
  int64_t pixels() const { return pixels_; }

 private:
  std::string play(const Row& row, bool& done, bool& first) {
    if ((row.kind == 1) != done) return "an episode ended at another step";
    StepResult result;
    if (row.kind == 1) {
      env_->reset(first ? std::optional<uint64_t>(golden_.number("seed")) : std::nullopt, obs_);
      first = false;
    } else {
      result = env_->step(Action::discrete(row.action), obs_);
    }
    env_->grey_frames(last_, before_);
    done = result.done();
    if (env_->lives() != row.lives) return "lives";
    if (row.kind == 0) {
      if (env_->step_score() != row.points) return "raw reward";
      if (result.reward != static_cast<float>(row.clipped)) return "clipped reward";
      if (result.terminated != ((row.flags & 1) != 0)) return "terminated";
      if (result.truncated != ((row.flags & 2) != 0)) return "truncated";
    }
    if (crc(last_) != row.last) return "last frame";
    if (row.kind == 1 && row.before == row.last) {  // the picture of a reset without FIRE is a single frame
      before_ = last_;
    } else if (crc(before_) != row.before) {
      return "frame before the last";
    }
    maximum_.resize(last_.size());
    for (size_t i = 0; i < last_.size(); ++i) maximum_[i] = std::max(last_[i], before_[i]);
    return crc(maximum_) == row.maximum ? "" : "maximum of both frames";
  }

  // Both sizes from the frames; and what the agent saw, its newest channel.
  std::string compare_pictures(const uint8_t* golden) {
    ++pictures_;
    std::vector<uint8_t> small(84 * 84), seen(obs_.size() / options_.stack);
    for (size_t i = 0; i < seen.size(); ++i) {
      seen[i] = static_cast<uint8_t>(obs_[i * options_.stack + options_.stack - 1]);
    }
    for (const int size : {84, 42}) {
      AreaResize resize(env_->frame_height(), 160, size);
      resize(maximum_.data(), small.data());
      int64_t off = 0;
      for (int i = 0; i < size * size; ++i) {
        const int difference = std::abs(small[i] - golden[i]);
        if (difference > 1) return fmt::format("{0}x{0} picture differs by {1} levels", size, difference);
        off += difference;
        if (size == size_ && seen[i] != small[i]) return "the newest channel is not the picture";
      }
      if (off * 100 >= size * size) return fmt::format("{} of {} pixels off", off, size * size);
      pixels_off_ += off;
      pixels_ += size * size;
      golden += size * size;
    }
    return {};
  }

  const Golden& golden_;
  const int size_;
  AtariOptions options_;
  std::unique_ptr<AtariEnv> env_;
  std::vector<std::byte> obs_;
  std::vector<uint8_t> last_, before_, maximum_;
  int pictures_ = 0;
  int64_t pixels_off_ = 0, pixels_ = 0;
};

using Case = std::tuple<const char*, const char*>;
class AtariGolden : public testing::TestWithParam<Case> {};

TEST_P(AtariGolden, EqualsTheRecording) {
  const auto [game, preset] = GetParam();
  const Golden golden = read_golden(game, preset);
  ASSERT_EQ(golden.number("steps"), 3000);
  Comparison comparison(golden, {});
  EXPECT_EQ(comparison.run(), "");
  EXPECT_EQ(comparison.pictures(), 12);
  RecordProperty("pixels_off", std::to_string(comparison.pixels_off()));
  std::printf("resize: %lld of %lld pixels off by one level\n", static_cast<long long>(comparison.pixels_off()),
              static_cast<long long>(comparison.pixels()));
}

INSTANTIATE_TEST_SUITE_P(Games, AtariGolden,
                         testing::Combine(testing::Values("pong", "breakout", "seaquest", "qbert"),
                                          testing::Values("deepmind", "v5")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                         });

// A comparison that would not notice a wrapper that is missing proves nothing.
TEST(AtariGoldenMutation, EachWrapperSwitchedOffIsNoticed) {
  const Golden deepmind = read_golden("breakout", "deepmind"), sticky = read_golden("breakout", "v5");
  const Golden pong = read_golden("pong", "deepmind"), qbert = read_golden("qbert", "deepmind");
  struct Mutation {
    const Golden& golden;
    const char *option, *value;
  };
  for (const Mutation& m : {Mutation{deepmind, "noops", "0"},
                            {deepmind, "noops", "16..16"},
                            {pong, "noops", "18..18"},
                            {sticky, "sticky", "0"},
                            {deepmind, "sticky", "0.25"},
                            {deepmind, "life_loss", "ignore"},
                            {sticky, "life_loss", "end"},
                            {deepmind, "fire_reset", "false"},
                            {sticky, "fire_reset", "true"},
                            {qbert, "reward", "raw"},
                            {deepmind, "frame_skip", "3"},
                            {pong, "pool", "last"},
                            {deepmind, "actions", "all"},
                            {pong, "max_frames", "1000"}}) {
    Comparison comparison(m.golden, {{m.option, m.value}});
    EXPECT_NE(comparison.run(), "") << m.option << " = " << m.value;
  }
}

}  // namespace
}  // namespace parl
