// The measurement behind `parl bench remote`, as a library: remote calls of one engine beside the bare thing that the
// machine offers, in one run and alternating, so that their ratio means something on a busy machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace parl::cli {

// What can be measured: inline, thread, process, tcp, tcp+token, tcp+tls. The last two are tcp with a shared token, and
// with certificates on both sides; both are made for the run, in a folder that goes with it.
const std::vector<std::string>& remote_bench_engines();

struct RemoteBenchSettings {
  std::string engine = "thread";
  int rounds = 5;           // A B rounds; the medians of the rounds count
  int calls = 10000;        // of each kind in a round
  int window = 64;          // calls in flight for calls_per_s
  int transfers = 16;       // of 4 MiB in a round
  int large_transfers = 3;  // of large_bytes in a round; 0: leave these out
  int64_t large_bytes = int64_t{256} << 20;
  int repeats = 5;            // broadcasts, creations, kills; 0: leave these out
  int unpinned_calls = 2000;  // 0: leave the unpinned part out
};

// Bare: thread: a round trip between two threads by mutex and condition variable, and memcpy;
// process: a blocking 64-byte round trip over a unix socket pair, and blocks over it into a buffer that is used again;
// tcp...: the same over a TCP connection on loopback, beside a worker process that dialled in over loopback;
// inline: a call through a pointer, and memcpy. Rates are medians; MB are 10^6 bytes. 0: not measured.
struct RemoteBenchResult {
  std::string engine;
  double call_us_p50 = 0, call_us_p99 = 0;                  // a blocking call with two ints, pinned to one core
  double calls_per_s = 0;                                   // `window` in flight, pinned
  double array_mb_per_s_up = 0, array_mb_per_s_down = 0;    // parl::Array of 4 MiB, object to caller (up) and back
  double vector_mb_per_s_up = 0, vector_mb_per_s_down = 0;  // std::vector<float> of 4 MiB
  double bare_us_p50 = 0, bare_mb_per_s = 0;
  double large_mb_per_s_up = 0, large_mb_per_s_down = 0;  // parl::Array of large_bytes
  double large_bare_mb_per_s = 0;
  double broadcast_ms = 0;      // an Array of 4 MB to 16 objects, until the last has answered
  double first_call_ms = 0;     // from create() to the first answer; tcp: of a worker that is there
  double kill_to_error_ms = 0;  // process, tcp: from kill -9 to the error of the call in flight
  double unpinned_call_us_p50 = 0, unpinned_bare_us_p50 = 0;
};

// Blocks for some seconds; leaves the calling thread's affinity as it was. Throws parl::Error, RemoteError.
RemoteBenchResult run_remote_bench(const RemoteBenchSettings& settings);

// What `openssl speed -evp aes-128-gcm -bytes 16384` says, in MB/s; empty: there is no openssl.
std::optional<double> openssl_mb_per_s();

}  // namespace parl::cli
