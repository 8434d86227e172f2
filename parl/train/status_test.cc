#include "parl/train/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "parl/core/log.h"

namespace parl {
namespace {

using testing::HasSubstr;

StatusSample sample_at(int64_t steps) {
  StatusSample s;
  s.steps = steps;
  s.updates = 1234;
  s.episodes = 321;
  s.return_mean = -12.345;
  s.episodes_in_mean = 100;
  s.policy_lag = 1.25;
  s.queue_fill = 0.5;
  s.env_share = 0.5;
  s.act_share = 0.2;
  s.learn_share = 0.3;
  s.rss_mb = 812;
  return s;
}

TEST(RateMeter, MeansOverWindows) {
  RateMeter rates;
  EXPECT_EQ(rates.rate(10), 0);
  for (int second = 0; second <= 400; ++second)
    rates.add(second, second < 390 ? second * 100 : 39'000 + (second - 390) * 1000);
  EXPECT_NEAR(rates.rate(10), 1000, 1);
  EXPECT_NEAR(rates.rate(60), (50 * 100 + 10 * 1000) / 60.0, 1);
  EXPECT_NEAR(rates.rate(300), (290 * 100 + 10 * 1000) / 300.0, 1);
}

TEST(RateMeter, ManyQuickSamplesKeepMemoryBoundedAndTheRateRight) {
  RateMeter rates;
  for (int i = 0; i <= 200'000; ++i) rates.add(i * 0.001, i);
  EXPECT_NEAR(rates.rate(60), 1000, 5);
}

TEST(StatusText, DurationsReadLikeClocks) {
  EXPECT_EQ(duration_text(7.4), "7 s");
  EXPECT_EQ(duration_text(723), "12:03");
  EXPECT_EQ(duration_text(7807), "2:10:07");
}

TEST(StatusText, TheBlockShowsEverythingAndFitsTheWidth) {
  RateMeter rates;
  rates.add(0, 0);
  rates.add(10, 25'000);
  const std::string block = status_block("impala atari:pong", sample_at(1'500'000), 0, 3'000'000, rates, 600, 200);
  for (const char* part :
       {"impala atari:pong", "[===============>              ]", "50.0 %", "1,500,000 / 3,000,000 steps", "10:00 gone",
        "ETA 10:00", "return -12.35 (100 of 321 episodes)", "steps/s 2500 | 2500 | 2500 (10 | 60 | 300 s)",
        "policy lag 1.25", "queue 50 %", "env 50 %, act 20 %, learn 30 %", "memory 812 MiB"}) {
    EXPECT_THAT(block, HasSubstr(part));
  }
  const std::string narrow = status_block("impala atari:pong", sample_at(1'500'000), 0, 3'000'000, rates, 600, 40);
  EXPECT_EQ(std::count(narrow.begin(), narrow.end(), '\n'), 3);
  for (size_t at = 0; at < narrow.size();) {
    const size_t end = narrow.find('\n', at);
    EXPECT_LT(end - at, 40U);
    at = end + 1;
  }
}

TEST(StatusText, BeforeTheFirstEpisodeThereIsNoReturn) {
  StatusSample s = sample_at(10);
  s.return_mean.reset();
  EXPECT_THAT(status_line(s, 100, {}, 1), HasSubstr("no finished episode yet"));
}

struct FileCloser {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

std::string contents(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text.push_back(static_cast<char>(c));
  return text;
}

TEST(Status, APipeGetsPlainLinesAtTheInterval) {
  const std::unique_ptr<std::FILE, FileCloser> out(std::tmpfile());
  Status status("title", 100, 0, /*line_seconds=*/1000, Status::Mode::kAuto, out.get());
  for (int i = 1; i <= 50; ++i) status.update(sample_at(i));
  std::string text = contents(out.get());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_THAT(text, testing::Not(HasSubstr("\x1b")));
  status.finish();
  text = contents(out.get());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_THAT(text, HasSubstr("steps 50/100"));
}

TEST(Status, ATerminalsBlockIsClearedForALogLineAndDrawnAgain) {
  const std::unique_ptr<std::FILE, FileCloser> out(std::tmpfile());
  Status status("title", 100, 0, 5, Status::Mode::kTerminal, out.get());
  status.update(sample_at(1));
  EXPECT_EQ(contents(out.get()).find("\x1b[1A"), std::string::npos);
  const auto level = log().level();
  log().set_level(spdlog::level::info);
  std::thread([] { log().info("from another thread"); }).join();
  log().set_level(level);
  const std::string text = contents(out.get());
  EXPECT_NE(text.find("\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K"), std::string::npos);
  status.update(sample_at(2));
  status.finish();
  EXPECT_GT(contents(out.get()).size(), text.size());
}

}  // namespace
}  // namespace parl
