#include "parl/core/memory.h"

#include <gtest/gtest.h>

namespace parl {
namespace {

TEST(Memory, AvailableIsTheMachinesOrTheContainers) {
  const std::string info = "MemTotal:  9000 kB\nMemFree: 10 kB\nMemAvailable:    4000 kB\nBuffers: 1 kB\n";
  EXPECT_EQ(available_memory_of(info, "", "", ""), 4'096'000);
  EXPECT_EQ(available_memory_of(info, "max\n", "77\n", ""), 4'096'000);
  EXPECT_EQ(available_memory_of(info, "9223372036854771712", "5", ""), 4'096'000);
  EXPECT_EQ(available_memory_of(info, "1000000\n", "400000\n", "anon 3\ninactive_file 50000\n"), 650'000);
  EXPECT_EQ(available_memory_of(info, "1000", "2000", ""), 0);
  EXPECT_EQ(available_memory_of("", "1000", "200", ""), 800);
  EXPECT_GT(available_memory_bytes(), 1'000'000);
}

}  // namespace
}  // namespace parl
