// The command line of `parl submit`; what it starts is tested in parl/submit.
#include <gtest/gtest.h>

#include "cli/command.h"

namespace parl::cli {
namespace {

std::string out_of(const Arguments& args) {
  testing::internal::CaptureStdout();
  int code = -1;
  try {
    code = verb_submit(args);
  } catch (...) {
    testing::internal::GetCapturedStdout();
    throw;
  }
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0);
  return out;
}

std::string usage_error(const Arguments& args) {
  try {
    verb_submit(args);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no usage error";
}

TEST(Submit, WhatStandsAfterTheDashesIsTheProgramsOwn) {
  const std::string out = out_of({"--on", "slurm", "-n", "3", "--address", "h:9", "--site-options", "--partition=a,b",
                                  "--env", "A=1", "--env", "B=2", "--dry-run", "--", "prog", "--help", "--on", "x"});
  for (const char* expected : {"prog --help --on x", "--array=0-2", "sbatch --parsable --partition=a,b ", "export A=1",
                               "export B=2", "prog --parl-worker tcp://h:9"})
    EXPECT_NE(out.find(expected), std::string::npos) << expected << " in\n" << out;
}

TEST(Submit, HelpShowsTheOptionsWithTheirDefaults) {
  const std::string out = out_of({"--help"});
  for (const char* expected : {"--on", "-n", "--mem", "2G", "--dry-run", "--hosts", "--image", "--ray-address"})
    EXPECT_NE(out.find(expected), std::string::npos) << expected;
}

TEST(Submit, WrongWordsAreUsageErrorsThatNameTheNearest) {
  EXPECT_NE(usage_error({"--on", "slrum", "--", "p"}).find("slurm"), std::string::npos);
  EXPECT_NE(usage_error({"--on", "ssh", "--host", "a", "--", "p"}).find("--host"), std::string::npos);
  EXPECT_NE(usage_error({"--on", "ssh"}).find("what shall run?"), std::string::npos);
  EXPECT_NE(usage_error({"-n", "many", "--", "p"}).find("workers"), std::string::npos);
  EXPECT_NE(usage_error({"--", "p"}).find("--on"), std::string::npos);
}

TEST(Submit, WhatCannotBeRightIsAUsageErrorThatNamesOptionAndValue) {
  const Arguments good = {"--on", "slurm", "--address", "h:9"};
  const auto error_of = [&](Arguments more) {
    Arguments args = good;
    args.insert(args.end(), more.begin(), more.end());
    args.insert(args.end(), {"--", "p"});
    return usage_error(args);
  };
  EXPECT_NE(error_of({"-n", "0"}).find("(-n) must be at least 1, not 0"), std::string::npos);
  EXPECT_NE(error_of({"-n", "-1"}).find("(-n) must be at least 1, not -1"), std::string::npos);
  EXPECT_NE(error_of({"--workers=-7"}).find("not -7"), std::string::npos);
  EXPECT_NE(error_of({"-n", "5000"}).find("from 1 to 4096, not 5000"), std::string::npos);
  EXPECT_NE(error_of({"-n", "3", "--slots", "0"}).find("--slots must be from 1"), std::string::npos);
  EXPECT_NE(error_of({"-n", "3", "--mem", "lots"}).find("--mem wants a size"), std::string::npos);
  EXPECT_NE(error_of({"-n", "3", "--hosts", "a"}).find("belong to --on ssh"), std::string::npos);
  EXPECT_NE(usage_error({"--on", "slurm", "-n", "3", "--address", "a:b:c", "--", "p"}).find("--address"),
            std::string::npos);
  EXPECT_NE(error_of({"-n", "3", "--env", "1"}).find("--env wants"), std::string::npos);
}

}  // namespace
}  // namespace parl::cli
