#include "parl/core/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace parl {
namespace {

int64_t count(const std::vector<std::string>& list, const std::string& text) {
  return std::count(list.begin(), list.end(), text);
}

TEST(Process, AnEnvironmentWithChanges) {
  ::setenv("PARL_PROCESS_TEST", "old", 1);
  ::setenv("PARL_PROCESS_TEST_2", "stays", 1);
  const auto changed = environment_with({{"PARL_PROCESS_TEST", "new"}, {"PARL_PROCESS_TEST_3", "a=b"}});
  EXPECT_EQ(count(changed, "PARL_PROCESS_TEST=old"), 0);
  EXPECT_EQ(count(changed, "PARL_PROCESS_TEST=new"), 1);
  EXPECT_EQ(count(changed, "PARL_PROCESS_TEST_2=stays"), 1);
  EXPECT_EQ(count(changed, "PARL_PROCESS_TEST_3=a=b"), 1);
}

TEST(Process, PointersEndWithNull) {
  std::vector<std::string> words = {"one", "two"};
  const auto pointers = exec_pointers(words);
  ASSERT_EQ(pointers.size(), 3u);
  EXPECT_STREQ(pointers[1], "two");
  EXPECT_EQ(pointers[2], nullptr);
}

TEST(Process, MemoryAndHost) {
  EXPECT_GT(resident_bytes(), 100'000);
  EXPECT_GT(resident_bytes(static_cast<int>(::getpid())), 100'000);
  EXPECT_EQ(resident_bytes(1 << 30), 0);
  EXPECT_FALSE(this_host().empty());
}

}  // namespace
}  // namespace parl
