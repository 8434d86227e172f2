// The measurement behind `parl bench remote`, as a library: remote calls of one engine beside the bare thing that the
// machine offers, in one run and alternating, so that their ratio means something on a busy machine.
#pragma once

#include <string>

namespace parl::cli {

struct RemoteBenchSettings {
  std::string engine = "thread";
  int rounds = 5;             // A B rounds; the medians of the rounds count
  int calls = 10000;          // of each kind in a round
  int window = 64;            // calls in flight for calls_per_s
  int transfers = 16;         // of 4 MiB in a round
  int unpinned_calls = 2000;  // 0: leave the unpinned part out
};

// Bare: thread: a round trip between two threads by mutex and condition variable, and memcpy of 4 MiB;
// process: a blocking 64-byte round trip over a unix socket pair, and 4 MiB over it into a buffer that is used again;
// tcp: the same over a TCP connection on loopback, beside a worker process that dialled in over loopback;
// inline: a call through a pointer, and memcpy.
struct RemoteBenchResult {
  std::string engine;
  double call_us_p50 = 0, call_us_p99 = 0;                  // a blocking call with two ints, pinned to one core
  double calls_per_s = 0;                                   // `window` in flight, pinned
  double array_mb_per_s_up = 0, array_mb_per_s_down = 0;    // parl::Array of 4 MiB, object to caller (up) and back
  double vector_mb_per_s_up = 0, vector_mb_per_s_down = 0;  // std::vector<float> of 4 MiB
  double bare_us_p50 = 0, bare_mb_per_s = 0;
  double unpinned_call_us_p50 = 0, unpinned_bare_us_p50 = 0;
};

// Blocks for some seconds; leaves the calling thread's affinity as it was. Throws parl::Error, RemoteError.
RemoteBenchResult run_remote_bench(const RemoteBenchSettings& settings);

}  // namespace parl::cli
