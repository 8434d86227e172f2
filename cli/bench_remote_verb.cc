// parl bench remote: latency and throughput of remote calls, each engine beside the bare thing in the same run.
//
// --json: the fields of RemoteBenchResult (bench_remote.h) by their names, in that order: of the one engine asked for,
// or of the thread engine with --engine all, where "engines" then holds one such object per engine. A field that was
// not measured is null. Beside them "openssl_mb_per_s": AES-128-GCM on one core by `openssl speed`, null without
// openssl or when tcp+tls was not measured.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <utility>

#include "cli/bench_remote.h"
#include "cli/command.h"

namespace parl::cli {
namespace {

// Figures by name.
std::vector<std::pair<const char*, double>> figures(const RemoteBenchResult& r) {
  return {{"call_us_p50", r.call_us_p50},
          {"call_us_p99", r.call_us_p99},
          {"calls_per_s", r.calls_per_s},
          {"array_mb_per_s_up", r.array_mb_per_s_up},
          {"array_mb_per_s_down", r.array_mb_per_s_down},
          {"vector_mb_per_s_up", r.vector_mb_per_s_up},
          {"vector_mb_per_s_down", r.vector_mb_per_s_down},
          {"bare_us_p50", r.bare_us_p50},
          {"bare_mb_per_s", r.bare_mb_per_s},
          {"large_mb_per_s_up", r.large_mb_per_s_up},
          {"large_mb_per_s_down", r.large_mb_per_s_down},
          {"large_bare_mb_per_s", r.large_bare_mb_per_s},
          {"broadcast_ms", r.broadcast_ms},
          {"first_call_ms", r.first_call_ms},
          {"kill_to_error_ms", r.kill_to_error_ms},
          {"unpinned_call_us_p50", r.unpinned_call_us_p50},
          {"unpinned_bare_us_p50", r.unpinned_bare_us_p50}};
}

JsonLine json_of(const RemoteBenchResult& r) {
  JsonLine line;
  line.add("engine", r.engine);
  for (const auto& [name, value] : figures(r)) line.add(name, value > 0 ? std::optional(value) : std::nullopt);
  return line;
}

void print(const RemoteBenchResult& r, int64_t large_bytes) {
  const auto share = [](double ours, double bare) { return bare > 0 ? 100 * ours / bare : 0; };
  std::cout << fmt::format(
      "{:<9} call {:.2f} us (p99 {:.2f}), bare {:.2f} us: {:.2f}x | {:.0f} calls/s | unpinned {:.1f} us, bare {:.1f} "
      "us\n"
      "          4 MiB: bare {:.0f} MB/s; array up {:.0f} ({:.0f} %), down {:.0f} ({:.0f} %); vector up {:.0f} ({:.0f} "
      "%), down {:.0f} ({:.0f} %)\n",
      r.engine, r.call_us_p50, r.call_us_p99, r.bare_us_p50, r.call_us_p50 / r.bare_us_p50, r.calls_per_s,
      r.unpinned_call_us_p50, r.unpinned_bare_us_p50, r.bare_mb_per_s, r.array_mb_per_s_up,
      share(r.array_mb_per_s_up, r.bare_mb_per_s), r.array_mb_per_s_down, share(r.array_mb_per_s_down, r.bare_mb_per_s),
      r.vector_mb_per_s_up, share(r.vector_mb_per_s_up, r.bare_mb_per_s), r.vector_mb_per_s_down,
      share(r.vector_mb_per_s_down, r.bare_mb_per_s));
  if (r.large_bare_mb_per_s > 0)
    std::cout << fmt::format("          {} MiB: bare {:.0f} MB/s; array up {:.0f} ({:.0f} %), down {:.0f} ({:.0f} %)\n",
                             large_bytes >> 20, r.large_bare_mb_per_s, r.large_mb_per_s_up,
                             share(r.large_mb_per_s_up, r.large_bare_mb_per_s), r.large_mb_per_s_down,
                             share(r.large_mb_per_s_down, r.large_bare_mb_per_s));
  if (r.first_call_ms > 0)
    std::cout << fmt::format(
        "          4 MB to 16 objects {:.1f} ms; create to first answer {:.2f} ms{}\n", r.broadcast_ms, r.first_call_ms,
        r.kill_to_error_ms > 0 ? fmt::format("; kill -9 to error {:.2f} ms", r.kill_to_error_ms) : std::string());
  std::cout << std::flush;
}

// TLS beside the same without, and beside the cipher alone.
void print_tls(const std::vector<RemoteBenchResult>& results, const std::optional<double>& openssl) {
  const auto find = [&](const char* engine) {
    return std::find_if(results.begin(), results.end(), [&](const RemoteBenchResult& r) { return r.engine == engine; });
  };
  const auto plain = find("tcp"), tls = find("tcp+tls");
  if (openssl) std::cout << fmt::format("openssl speed, aes-128-gcm, records of 16 KiB: {:.0f} MB/s\n", *openssl);
  if (plain == results.end() || tls == results.end()) return;
  std::cout << fmt::format("TLS beside plain tcp: 4 MiB array up {:.0f} %, down {:.0f} %\n",
                           100 * tls->array_mb_per_s_up / plain->array_mb_per_s_up,
                           100 * tls->array_mb_per_s_down / plain->array_mb_per_s_down);
}

}  // namespace

int bench_remote(const Arguments& args) {
  CLI::App app("Remote calls of each engine beside a bare round trip, pinned to one core", "parl bench remote");
  RemoteBenchSettings s;
  s.engine = "all";
  bool json = false;
  int64_t large_mib = s.large_bytes >> 20;
  app.add_option("--engine", s.engine, fmt::format("{}, or all", fmt::join(remote_bench_engines(), ", ")))
      ->capture_default_str();
  app.add_option("--rounds", s.rounds, "alternating rounds; their medians count")->capture_default_str();
  app.add_option("--calls", s.calls, "calls in a round")->capture_default_str();
  app.add_option("--window", s.window, "calls in flight for calls/s")->capture_default_str();
  app.add_option("--transfers", s.transfers, "transfers of 4 MiB in a round")->capture_default_str();
  app.add_option("--large-transfers", s.large_transfers, "transfers of large arrays in a round; 0: none")
      ->capture_default_str();
  app.add_option("--large", large_mib, "size of the large arrays in MiB")->capture_default_str();
  app.add_option("--repeats", s.repeats, "broadcasts, creations and kills; 0: none")->capture_default_str();
  app.add_flag("--json", json, kJsonHelp);
  if (!parse(app, args)) return kSuccess;
  constexpr int64_t kLargest = 65536;
  check_at_least("--rounds", s.rounds, 1);
  check_at_least("--calls", s.calls, 10);
  check_at_least("--window", s.window, 1);
  check_at_least("--transfers", s.transfers, 1);
  check_at_least("--large-transfers", s.large_transfers, 0);
  check_at_least("--large", large_mib, 1);
  check_at_least("--repeats", s.repeats, 0);
  if (large_mib > kLargest) throw UsageError(fmt::format("--large must be at most {}, not {}", kLargest, large_mib));
  s.large_bytes = large_mib << 20;
  std::vector<std::string> names = remote_bench_engines();
  const bool all = s.engine == "all";
  if (!all && std::find(names.begin(), names.end(), s.engine) == names.end()) {
    names.emplace_back("all");
    throw UsageError(fmt::format("there is no engine '{}'{} (see: parl bench remote --help)", s.engine,
                                 did_you_mean(s.engine, names)));
  }
  std::vector<RemoteBenchResult> results;
  for (const std::string& engine : names) {
    if (!all && s.engine != engine) continue;
    RemoteBenchSettings one = s;
    one.engine = engine;
    results.push_back(run_remote_bench(one));
    print(results.back(), s.large_bytes);
  }
  std::optional<double> openssl;
  if (results.back().engine == "tcp+tls") openssl = openssl_mb_per_s();
  print_tls(results, openssl);
  if (!json) return kSuccess;
  JsonLine line = json_of(results[all ? 1 : 0]);
  line.add("openssl_mb_per_s", openssl);
  if (all) {
    std::string list;
    for (const RemoteBenchResult& r : results) list += (list.empty() ? "[" : ", ") + json_of(r).text();
    line.add_raw("engines", list + "]");
  }
  line.print();
  return kSuccess;
}

}  // namespace parl::cli
