#include "cli/bench_remote.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace parl::cli {
namespace {

// Figures are the machine's; that each is measured, and that pinning ends, is ours.
TEST(BenchRemote, MeasuresEverythingAndUnpins) {
  cpu_set_t before, after;
  sched_getaffinity(0, sizeof(before), &before);
  for (const char* engine : {"inline", "thread", "process", "tcp"}) {
    RemoteBenchSettings s{
        .engine = engine, .rounds = 1, .calls = 100, .window = 8, .transfers = 2, .unpinned_calls = 10};
    const RemoteBenchResult r = run_remote_bench(s);
    EXPECT_EQ(r.engine, engine);
    for (const double x :
         {r.call_us_p50, r.call_us_p99, r.calls_per_s, r.array_mb_per_s_up, r.array_mb_per_s_down, r.vector_mb_per_s_up,
          r.vector_mb_per_s_down, r.bare_us_p50, r.bare_mb_per_s, r.unpinned_call_us_p50, r.unpinned_bare_us_p50}) {
      EXPECT_GT(x, 0) << engine;
    }
    EXPECT_LE(r.call_us_p50, r.call_us_p99);
  }
  sched_getaffinity(0, sizeof(after), &after);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
}  // namespace parl::cli
