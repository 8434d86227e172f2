// parl bench remote: latency and throughput of remote calls, each engine beside the bare thing in the same run.
//
// --json: {"engine", "call_us_p50", "call_us_p99", "calls_per_s", "array_mb_per_s_up", "array_mb_per_s_down",
// "vector_mb_per_s_up", "vector_mb_per_s_down", "bare_us_p50", "bare_mb_per_s", "unpinned_call_us_p50",
// "unpinned_bare_us_p50"}: of the one engine asked for, or of the thread engine with --engine all, where "engines" then
// holds one such object per engine. MB are 10^6 bytes; pinned to one core, but for the two unpinned ones.
#include "cli/bench_remote.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <functional>
#include <iostream>
#include <system_error>
#include <vector>

#include "cli/bare_peer.h"
#include "cli/command.h"
#include "parl/core/clock.h"
#include "parl/remote/remote.h"

namespace parl::cli {

// What is measured. Payloads are made for each call: arrays uninitialised and touched once a page, vectors filled.
class BenchObject {
 public:
  int sum(int a, int b) { return a + b; }
  Array give() {
    Array a = Array::empty(DType::kF32, {kFloats});
    touch(a);
    return a;
  }
  float take(const Array& a) { return touch(a); }
  std::vector<float> give_vector() { return std::vector<float>(kFloats, 1.0f); }
  float take_vector(const std::vector<float>& v) { return v.back(); }

  static constexpr int64_t kFloats = BarePeer::kBytes / sizeof(float);
  static void touch(Array& a) {
    for (int64_t i = 0; i < kFloats; i += kPage) a.data<float>()[i] = 1.0f;
  }
  static float touch(const Array& a) {
    float sum = 0;
    for (int64_t i = 0; i < kFloats; i += kPage) sum += a.data<float>()[i];
    return sum;
  }

 private:
  static constexpr int64_t kPage = 4096 / sizeof(float);
};
PARL_REMOTE_CLASS_AS("parl.BenchObject", BenchObject, sum, give, take, give_vector, take_vector);

namespace {

// The calling thread (and what it starts) on one processor for as long as this lives.
class PinnedToOneCore {
 public:
  PinnedToOneCore() {
    PARL_CHECK(sched_getaffinity(0, sizeof(before_), &before_) == 0, "the processors of this thread are unknown");
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = CPU_SETSIZE - 1; i >= 0; --i) {
      if (!CPU_ISSET(i, &before_)) continue;
      CPU_SET(i, &one);  // the last: the first one serves most interrupts
      break;
    }
    PARL_CHECK(sched_setaffinity(0, sizeof(one), &one) == 0, "this thread cannot be pinned to one processor");
  }
  ~PinnedToOneCore() { sched_setaffinity(0, sizeof(before_), &before_); }
  PinnedToOneCore(const PinnedToOneCore&) = delete;
  PinnedToOneCore& operator=(const PinnedToOneCore&) = delete;

 private:
  cpu_set_t before_{};
};

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<long>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Microseconds of each of `n` runs of `f`.
template <typename F>
std::vector<double> times_us(int n, F&& f) {
  std::vector<double> times(static_cast<size_t>(n));
  for (double& time : times) {
    const auto start = Clock::now();
    f();
    time = 1e6 * seconds_since(start);
  }
  return times;
}

struct Latency {
  std::vector<double> p50, p99;
  void add(const std::vector<double>& times) {
    p50.push_back(quantile(times, 0.5));
    p99.push_back(quantile(times, 0.99));
  }
};

double mb_per_s(const std::vector<double>& times_us) {
  return static_cast<double>(BarePeer::kBytes) / quantile(times_us, 0.5);  // bytes per microsecond
}

double calls_per_second(Remote<BenchObject>& object, int calls, int window) {
  std::deque<Future<int>> in_flight;
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) {
    if (static_cast<int>(in_flight.size()) == window) {
      in_flight.front().get();
      in_flight.pop_front();
    }
    in_flight.push_back(object.async()->sum(i, 1));
  }
  for (auto& f : in_flight) f.get();
  return static_cast<double>(calls) / seconds_since(start);
}

void measure_latency(const RemoteBenchSettings& s, BarePeer& bare, Remote<BenchObject>& object, RemoteBenchResult& r) {
  Latency bare_times, call_times;
  std::vector<double> rates;
  const auto call = [&] { object->sum(1, 2); };
  times_us(s.calls / 10, call);
  times_us(s.calls / 10, [&] { bare.round_trip(); });
  for (int round = 0; round < s.rounds; ++round) {
    bare_times.add(times_us(s.calls, [&] { bare.round_trip(); }));
    call_times.add(times_us(s.calls, call));
    rates.push_back(calls_per_second(object, s.calls, s.window));
  }
  r.bare_us_p50 = quantile(bare_times.p50, 0.5);
  r.call_us_p50 = quantile(call_times.p50, 0.5);
  r.call_us_p99 = quantile(call_times.p99, 0.5);
  r.calls_per_s = quantile(rates, 0.5);
}

void measure_bandwidth(const RemoteBenchSettings& s, BarePeer& bare, Remote<BenchObject>& object,
                       RemoteBenchResult& r) {
  std::vector<double> bare_rates, array_up, array_down, vector_up, vector_down;
  const int n = s.transfers;
  for (int round = -1; round < s.rounds; ++round) {  // the first one warms up
    const double bare_rate = mb_per_s(times_us(n, [&] { bare.send_block(); }));
    const double up =
        mb_per_s(times_us(n, [&] { BenchObject::touch(std::as_const(*std::make_unique<Array>(object->give()))); }));
    const double down = mb_per_s(times_us(n, [&] {
      Array a = Array::empty(DType::kF32, {BenchObject::kFloats});
      BenchObject::touch(a);
      object->take(std::move(a));
    }));
    const double v_up = mb_per_s(times_us(n, [&] { object->give_vector(); }));
    const double v_down =
        mb_per_s(times_us(n, [&] { object->take_vector(std::vector<float>(BenchObject::kFloats, 1.0f)); }));
    if (round < 0) continue;
    bare_rates.push_back(bare_rate);
    array_up.push_back(up);
    array_down.push_back(down);
    vector_up.push_back(v_up);
    vector_down.push_back(v_down);
  }
  r.bare_mb_per_s = quantile(bare_rates, 0.5);
  r.array_mb_per_s_up = quantile(array_up, 0.5);
  r.array_mb_per_s_down = quantile(array_down, 0.5);
  r.vector_mb_per_s_up = quantile(vector_up, 0.5);
  r.vector_mb_per_s_down = quantile(vector_down, 0.5);
}

void print(const RemoteBenchResult& r) {
  std::cout << fmt::format(
      "{:<8} call {:6.2f} us (p99 {:6.2f}), bare {:6.2f} us: {:.2f}x | {:8.0f} calls/s | unpinned {:.1f} us, bare "
      "{:.1f} us\n"
      "         4 MiB array up {:.0f}, down {:.0f} MB/s, vector up {:.0f}, down {:.0f} MB/s, bare {:.0f} MB/s\n",
      r.engine, r.call_us_p50, r.call_us_p99, r.bare_us_p50, r.call_us_p50 / r.bare_us_p50, r.calls_per_s,
      r.unpinned_call_us_p50, r.unpinned_bare_us_p50, r.array_mb_per_s_up, r.array_mb_per_s_down, r.vector_mb_per_s_up,
      r.vector_mb_per_s_down, r.bare_mb_per_s);
}

JsonLine json_of(const RemoteBenchResult& r) {
  JsonLine line;
  line.add("engine", r.engine)
      .add("call_us_p50", r.call_us_p50)
      .add("call_us_p99", r.call_us_p99)
      .add("calls_per_s", r.calls_per_s)
      .add("array_mb_per_s_up", r.array_mb_per_s_up)
      .add("array_mb_per_s_down", r.array_mb_per_s_down)
      .add("vector_mb_per_s_up", r.vector_mb_per_s_up)
      .add("vector_mb_per_s_down", r.vector_mb_per_s_down)
      .add("bare_us_p50", r.bare_us_p50)
      .add("bare_mb_per_s", r.bare_mb_per_s)
      .add("unpinned_call_us_p50", r.unpinned_call_us_p50)
      .add("unpinned_bare_us_p50", r.unpinned_bare_us_p50);
  return line;
}

// A manager, and for tcp a worker process of this program that dials in to it.
class Bench {
 public:
  explicit Bench(const std::string& engine) : manager_(engine == "tcp" ? "tcp://127.0.0.1:0" : engine) {
    if (engine == "tcp") start_worker(manager_.engine());
    object_ = manager_.create<BenchObject>();
  }
  ~Bench() {
    object_.reset();
    if (worker_ <= 0) return;
    kill(worker_, SIGTERM);
    waitpid(worker_, nullptr, 0);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  Remote<BenchObject>& object() { return object_; }

 private:
  void start_worker(std::string address) {
    std::string name = "parl", option = "--parl-worker";
    char* const arguments[] = {name.data(), option.data(), address.data(), nullptr};
    const int error = posix_spawn(&worker_, "/proc/self/exe", nullptr, nullptr, arguments, environ);
    PARL_CHECK(error == 0, "no worker process: {}", std::generic_category().message(error));
  }
  RemoteManager manager_;
  pid_t worker_ = 0;
  Remote<BenchObject> object_;
};

}  // namespace

RemoteBenchResult run_remote_bench(const RemoteBenchSettings& s) {
  PARL_CHECK(s.rounds > 0 && s.calls >= 10 && s.window > 0 && s.transfers > 0,
             "the benchmark needs rounds, calls and transfers");
  RemoteBenchResult r;
  r.engine = s.engine;
  {
    const PinnedToOneCore pinned;
    const auto bare = make_bare_peer(s.engine);
    Bench bench(s.engine);
    measure_latency(s, *bare, bench.object(), r);
    measure_bandwidth(s, *bare, bench.object(), r);
  }
  if (s.unpinned_calls > 0) {
    const auto bare = make_bare_peer(s.engine);
    Bench bench(s.engine);
    r.unpinned_bare_us_p50 = quantile(times_us(s.unpinned_calls, [&] { bare->round_trip(); }), 0.5);
    r.unpinned_call_us_p50 = quantile(times_us(s.unpinned_calls, [&] { bench.object()->sum(1, 2); }), 0.5);
  }
  return r;
}

int bench_remote(const Arguments& args) {
  CLI::App app("Remote calls of each engine beside a bare round trip, pinned to one core", "parl bench remote");
  RemoteBenchSettings s;
  s.engine = "all";
  bool json = false;
  app.add_option("--engine", s.engine, "inline, thread, process, tcp or all")
      ->capture_default_str()
      ->check(CLI::IsMember({"inline", "thread", "process", "tcp", "all"}));
  app.add_option("--rounds", s.rounds, "alternating rounds; their medians count")->capture_default_str();
  app.add_option("--calls", s.calls, "calls in a round")->capture_default_str();
  app.add_option("--window", s.window, "calls in flight for calls/s")->capture_default_str();
  app.add_option("--transfers", s.transfers, "transfers of 4 MiB in a round")->capture_default_str();
  app.add_flag("--json", json, kJsonHelp);
  if (!parse(app, args)) return kSuccess;
  const bool all = s.engine == "all";
  std::vector<RemoteBenchResult> results;
  for (const char* engine : {"inline", "thread", "process", "tcp"}) {
    if (!all && s.engine != engine) continue;
    RemoteBenchSettings one = s;
    one.engine = engine;
    results.push_back(run_remote_bench(one));
    print(results.back());
  }
  if (!json) return kSuccess;
  JsonLine line = json_of(results[all ? 1 : 0]);
  if (all) {
    std::string list;
    for (const RemoteBenchResult& r : results) list += (list.empty() ? "[" : ", ") + json_of(r).text();
    line.add_raw("engines", list + "]");
  }
  line.print();
  return kSuccess;
}

}  // namespace parl::cli
