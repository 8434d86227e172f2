#include "parl/train/run_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/core/log.h"

namespace parl {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class RunDirs : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = testing::TempDir() + "parl_run_" + std::to_string(::getpid());
};

TEST_F(RunDirs, MakesTheFolderAndKnowsItsFiles) {
  const RunDir run(folder_ + "/a/b/");
  EXPECT_TRUE(std::filesystem::is_directory(folder_ + "/a/b"));
  EXPECT_EQ(run.config_file(), folder_ + "/a/b/config.json");
  run.save_config("{}");
  EXPECT_EQ(read_file(run.config_file()), "{}");
}

TEST_F(RunDirs, ASecondRunInTheSameFolderIsRefusedWithTheFirstOnesProcess) {
  std::optional<RunDir> first(folder_);
  EXPECT_THAT([&] { RunDir second(folder_); },
              ThrowsMessage<Error>(HasSubstr("another process (" + std::to_string(::getpid()) + ") is training in")));
  RunDir moved(std::move(*first));
  first.reset();
  EXPECT_THROW(RunDir second(folder_), Error);  // still held by `moved`
}

TEST_F(RunDirs, TheLockEndsWithItsOwnerAlsoWhenKilled) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunDir run(folder_);
    const char byte = 1;
    if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THROW(RunDir second(folder_), Error);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(RunDir second(folder_));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(RunDirs, APlaceThatCannotBeWrittenIsNamed) {
  EXPECT_THAT([] { RunDir run("/proc/parl_run"); }, ThrowsMessage<Error>(HasSubstr("'/proc/parl_run'")));
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_THAT([&] { RunDir run(folder_ + "/file"); },
              ThrowsMessage<Error>(HasSubstr("cannot create the run directory")));
}

TEST_F(RunDirs, AFullDiskIsNamedBeforeTheRunStarts) {
  EXPECT_THAT([&] { RunDir run(folder_, int64_t{1} << 60); }, ThrowsMessage<Error>(HasSubstr("is full: ")));
}

TEST_F(RunDirs, TheLogGoesIntoTheFolderWhileTheRunLasts) {
  {
    RunDir run(folder_);
    run.start_log();
    log().info("inside");
  }
  log().info("outside");
  EXPECT_THAT(read_file(folder_ + "/log.txt"), testing::AllOf(HasSubstr("inside"), testing::Not(HasSubstr("outside"))));
}

}  // namespace
}  // namespace parl
