#include "parl/train/tensorboard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "parl/core/files.h"
#include "parl/train/metrics.h"

namespace parl {
namespace {

TEST(Crc32c, KnownAnswers) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
}

class EventFiles : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // What TensorBoard's own reader finds: lines "tag step value wall_time". Skips the test without a Python that has it.
  std::string read_with_tensorboard() {
    const char* chosen = std::getenv("PARL_PYTHON");
    python_ = chosen ? chosen : PARL_PYTHON;
    if (python_.empty()) return "";
    const std::string script = folder_ + "/read.py", out = folder_ + "/read.txt";
    write_file_atomically(script, R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator, SCALARS
events = EventAccumulator(sys.argv[1], size_guidance={SCALARS: 0})
events.Reload()
for tag in sorted(events.Tags()['scalars']):
    for e in events.Scalars(tag):
        print(tag, e.step, repr(e.value), e.wall_time)
)");
    const std::string command =
        python_ + " " + script + " " + folder_ + "/tensorboard >" + out + " 2>" + folder_ + "/error.txt";
    if (std::system(command.c_str()) != 0) return "FAILED: " + read_file(folder_ + "/error.txt");
    return read_file(out);
  }
  const std::string folder_ = testing::TempDir() + "parl_events_" + std::to_string(::getpid());
  std::string python_;
};

TEST_F(EventFiles, TensorBoardsOwnReaderReadsThemBack) {
  {
    EventFile events(folder_ + "/tensorboard");
    events.scalar("return_mean_100", 20'000, -20.5, 1.7e9);
    events.scalar("return_mean_100", 3'000'000'000, 18.25, 1.7e9 + 1);
    events.scalar("my_env/coins", 1, 3, 1.7e9);
  }
  const std::string read = read_with_tensorboard();
  if (python_.empty()) GTEST_SKIP() << "no Python with tensorboard (cmake -DPARL_PYTHON=...)";
  EXPECT_EQ(read,
            "my_env/coins 1 3.0 1700000000.0\n"
            "return_mean_100 20000 -20.5 1700000000.0\n"
            "return_mean_100 3000000000 18.25 1700000001.0\n");
}

TEST_F(EventFiles, AContinuedRunReplacesWhatComesAgain) {
  {
    MetricsWriter first(folder_, {"loss"});
    for (int64_t step : {100, 200, 300}) first.write(step, {{"loss", static_cast<double>(step)}});
  }
  {
    MetricsWriter second(folder_, {"loss"}, /*from_step=*/200);
    second.write(300, {{"loss", 1}});
  }
  const std::string read = read_with_tensorboard();
  if (python_.empty()) GTEST_SKIP() << "no Python with tensorboard (cmake -DPARL_PYTHON=...)";
  std::istringstream lines(read);
  std::string got;
  for (std::string tag, step, value, time; lines >> tag >> step >> value >> time;) got += step + "=" + value + " ";
  EXPECT_EQ(got, "100=100.0 200=200.0 300=1.0 ") << read;
}

TEST_F(EventFiles, RecordsAreFramedWithLengthAndChecksums) {
  std::string path;
  {
    EventFile events(folder_ + "/tensorboard");
    path = events.path();
  }
  const std::string bytes = read_file(path);  // one record: the version event, 24 bytes
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  ASSERT_EQ(bytes.size(), 8 + 4 + length + 4);
  EXPECT_EQ(bytes.substr(12 + 9, 2), std::string("\x1a\x0d"));  // after wall_time: field 3, 13 bytes
  EXPECT_EQ(bytes.substr(12 + 11, 13), "brain.Event:2");
}

}  // namespace
}  // namespace parl
