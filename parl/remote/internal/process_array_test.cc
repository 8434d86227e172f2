// Large arrays between a learner and its worker processes: in place, copied, and after a death.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <vector>

#include "parl/remote/internal/process_test_class.h"

namespace parl::internal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(ProcessArrays, ArraysTravelInPlaceAndComeBack) {
  ProbeEngine engine;
  Probe probe = engine.create();
  for (int round = 0; round < 50; ++round) {
    Array array = probe.get<Array>(Do::kMakeArray, int64_t{1} << 20);
    EXPECT_EQ(array.data<float>()[1 << 19], 1 << 19);
    Array back = probe.get<Array>(Do::kBounce, std::move(array));
    EXPECT_EQ(back.data<float>()[1 << 19], (1 << 19) + 1);
  }
  EXPECT_EQ(engine.stats().arrays_copied, 0u);
  // Arrays that were not made by the worker are copied once.
  Array own = Array::of<float>({100000});
  EXPECT_EQ((probe.get<double>(Do::kSumArray, std::move(own))), 0.0);
}

TEST(ProcessArrays, AnExhaustedSlabCostsCopiesNotCalls) {
  Options options;
  options.slab_bytes = 4 << 20;
  ProbeEngine engine(options);
  Probe probe = engine.create();
  std::vector<Array> held;
  for (int i = 0; i < 12; ++i) held.push_back(probe.get<Array>(Do::kMakeArray, int64_t{1} << 18));  // 1 MiB each
  for (const Array& array : held) EXPECT_EQ(array.data<float>()[(1 << 18) - 1], (1 << 18) - 1);
  EXPECT_GT(engine.stats().arrays_copied, 0u);
  EXPECT_GT(engine.stats().arrays_in_place, 0u);
  held.clear();
  const auto before = engine.stats().arrays_copied;
  held.push_back(probe.get<Array>(Do::kMakeArray, int64_t{1} << 18));
  EXPECT_EQ(engine.stats().arrays_copied, before) << "the places came back";
  const auto huge = Array::of<float>({4 << 20});
  EXPECT_EQ((probe.get<Array>(Do::kBounce, huge)).size(), 4 << 20) << "larger than the slab";
}

TEST(ProcessArrays, ArraysOfADeadWorkerStayReadable) {
  ProbeEngine engine;
  Array array;
  {
    Probe probe = engine.create();
    array = probe.get<Array>(Do::kMakeArray, int64_t{1} << 20);
    ::kill(static_cast<pid_t>(probe->pid()), SIGKILL);
    EXPECT_TRUE(probe->wait_gone(Clock::now() + 5s));
  }
  EXPECT_EQ(array.data<float>()[12345], 12345);
}

}  // namespace
}  // namespace parl::internal
