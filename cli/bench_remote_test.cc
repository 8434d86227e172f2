#include "cli/bench_remote.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace parl::cli {
namespace {

// Figures are the machine's; that each is measured, and that pinning ends, is ours.
TEST(BenchRemote, MeasuresEverythingAndUnpins) {
  cpu_set_t before, after;
  sched_getaffinity(0, sizeof(before), &before);
  for (const std::string& engine : remote_bench_engines()) {
    RemoteBenchSettings s{.engine = engine,
                          .rounds = 1,
                          .calls = 100,
                          .window = 8,
                          .transfers = 2,
                          .large_transfers = 1,
                          .large_bytes = 6 << 20,
                          .repeats = 1,
                          .unpinned_calls = 10};
    const RemoteBenchResult r = run_remote_bench(s);
    EXPECT_EQ(r.engine, engine);
    for (const double x :
         {r.call_us_p50, r.call_us_p99, r.calls_per_s, r.array_mb_per_s_up, r.array_mb_per_s_down, r.vector_mb_per_s_up,
          r.vector_mb_per_s_down, r.bare_us_p50, r.bare_mb_per_s, r.large_mb_per_s_up, r.large_mb_per_s_down,
          r.large_bare_mb_per_s, r.broadcast_ms, r.first_call_ms, r.unpinned_call_us_p50, r.unpinned_bare_us_p50}) {
      EXPECT_GT(x, 0) << engine;
    }
    EXPECT_LE(r.call_us_p50, r.call_us_p99);
    EXPECT_EQ(r.kill_to_error_ms > 0, engine != "inline" && engine != "thread") << engine;
    EXPECT_LT(r.kill_to_error_ms, 1000) << engine << ": the promise";
  }
  sched_getaffinity(0, sizeof(after), &after);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
}  // namespace parl::cli
