#include "parl/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>

#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/core/process.h"

namespace parl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Metrics : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string csv() const { return read_file(folder_ + "/metrics.csv"); }
  const std::string folder_ = testing::TempDir() + "parl_metrics_" + std::to_string(::getpid());
};

TEST_F(Metrics, WritesStableColumnsInShortestExactForm) {
  MetricsWriter m(folder_, {"loss", "updates"}, 0, false);
  m.write(100, {{"updates", 3}, {"loss", 0.1}});
  m.write(200, {{"loss", std::numeric_limits<double>::quiet_NaN()}});
  EXPECT_EQ(csv(), "steps,loss,updates\n100,0.1,3\n200,,\n");
}

TEST_F(Metrics, ANewNameBecomesAColumnAtTheRight) {
  MetricsWriter m(folder_, {"loss"}, 0, false);
  m.write(1, {{"loss", 2}});
  m.write(2, {{"coins,all", 3}, {"loss", 1e-9}});
  m.write(3, {{"loss", 4}});
  EXPECT_EQ(csv(), "steps,loss,coins_all\n1,2,\n2,1e-09,3\n3,4,\n");
  EXPECT_THAT(m.columns(), ElementsAre("loss", "coins_all"));
}

TEST_F(Metrics, ContinuingCutsWhatComesAgainAndKeepsTheColumns) {
  {
    MetricsWriter m(folder_, {"a", "b"}, 0, false);
    for (int i = 1; i <= 5; ++i) m.write(i * 100, {{"a", i}, {"b", -i}});
  }
  {
    std::ofstream out(folder_ + "/metrics.csv", std::ios::app);
    out << "600,6,-";  // the line that a kill -9 cut short
  }
  MetricsWriter m(folder_, {"b", "a", "c"}, 300, false);
  m.write(400, {{"a", 44}, {"c", 1}});
  EXPECT_EQ(csv(), "steps,a,b,c\n100,1,-1,\n200,2,-2,\n300,3,-3,\n400,44,,1\n");
}

TEST_F(Metrics, FromZeroStartsAnew) {
  { MetricsWriter(folder_, {"a"}, 0, false).write(1, {{"a", 1}}); }
  MetricsWriter m(folder_, {"b"}, 0, false);
  EXPECT_EQ(csv(), "steps,b\n");
}

TEST_F(Metrics, ReadsBackWhatItWrote) {
  MetricsWriter m(folder_, {"x"}, 0, false);
  m.write(1, {{"x", 1.0 / 3}});
  m.write(2, {});
  const MetricsTable table = read_metrics(m.path());
  EXPECT_THAT(table.columns, ElementsAre("steps", "x"));
  EXPECT_EQ(table.column("x")[0], 1.0 / 3);
  EXPECT_TRUE(std::isnan(table.column("x")[1]));
  EXPECT_THAT([&] { table.column("step"); }, testing::ThrowsMessage<Error>(HasSubstr("did you mean 'steps'")));
}

// The file may grow to a limit only, as on a full disk: the row that does not fit leaves no trace.
TEST_F(Metrics, AFailedRowLeavesNoTrace) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    MetricsWriter m(folder_, {"a"}, 0, false);
    m.write(1, {{"a", 1}});
    const rlimit limit{14, 14};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      m.write(2, {{"a", 123456}});
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("metrics.csv") == std::string::npos ? 2 : 0);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(csv(), "steps,a\n1,1\n");
}

TEST_F(Metrics, TheSameMetricTwiceInARowIsAnError) {
  MetricsWriter m(folder_, {"a"}, 0, false);
  EXPECT_THAT([&] { m.write(1, {{"a", 1}, {"a", 2}}); }, testing::ThrowsMessage<Error>(HasSubstr("'a' stands twice")));
}

TEST(Resident, GrowsWithMemoryInUse) {
  const int64_t before = resident_bytes();
  EXPECT_GT(before, 1 << 20);
  std::vector<char> memory(64 << 20, 1);
  EXPECT_GT(resident_bytes(), before + (50 << 20)) << memory.back();
  EXPECT_EQ(resident_bytes(1 << 30), 0);  // no such process
}

}  // namespace
}  // namespace parl
