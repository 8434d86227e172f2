#include "cli/bench_remote.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include "cli/bare_peer.h"
#include "parl/core/clock.h"
#include "parl/remote/keygen.h"
#include "parl/remote/remote.h"

namespace parl::cli {

// What is measured. Payloads are made for each call: arrays uninitialised and touched once a page, vectors filled.
class BenchObject {
 public:
  int sum(int a, int b) { return a + b; }
  Array give(int64_t floats) { return make_array(floats); }
  float take(const Array& a) { return touch(a); }
  std::vector<float> give_vector() { return std::vector<float>(kFloats, 1.0f); }
  float take_vector(const std::vector<float>& v) { return v.back(); }
  void wait() {
    while (!stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  static constexpr int64_t kFloats = BarePeer::kBytes / sizeof(float);
  static Array make_array(int64_t floats) {
    Array a = Array::empty(DType::kF32, {floats});
    for (int64_t i = 0; i < floats; i += kPage) a.data<float>()[i] = 1.0f;
    return a;
  }
  static float touch(const Array& a) {
    float sum = 0;
    for (int64_t i = 0; i < a.size(); i += kPage) sum += a.data<float>()[i];
    return sum;
  }

 private:
  static constexpr int64_t kPage = 4096 / sizeof(float);
};
PARL_REMOTE_CLASS_AS("parl.BenchObject", BenchObject, sum, give, take, give_vector, take_vector, wait);

namespace {

constexpr int kListeners = 16;  // of a broadcast
constexpr int64_t kBroadcastFloats = 1'000'000;

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

double mb_per_s(const std::vector<double>& times_us, int64_t bytes = BarePeer::kBytes) {
  return static_cast<double>(bytes) / quantile(times_us, 0.5);  // bytes per microsecond
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

void receive(Remote<BenchObject>& object, int64_t floats) { BenchObject::touch(object->give(floats)); }

void send(Remote<BenchObject>& object, int64_t floats) { object->take(BenchObject::make_array(floats)); }

void measure_bandwidth(const RemoteBenchSettings& s, BarePeer& bare, Remote<BenchObject>& object,
                       RemoteBenchResult& r) {
  std::vector<double> bare_rates, array_up, array_down, vector_up, vector_down;
  const int n = s.transfers;
  constexpr int64_t kFloats = BenchObject::kFloats;
  for (int round = -1; round < s.rounds; ++round) {  // the first one warms up
    const double bare_rate = mb_per_s(times_us(n, [&] { bare.send_block(); }));
    const double up = mb_per_s(times_us(n, [&] { receive(object, kFloats); }));
    const double down = mb_per_s(times_us(n, [&] { send(object, kFloats); }));
    const double v_up = mb_per_s(times_us(n, [&] { object->give_vector(); }));
    const double v_down = mb_per_s(times_us(n, [&] { object->take_vector(std::vector<float>(kFloats, 1.0f)); }));
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

void measure_large(const RemoteBenchSettings& s, BarePeer& bare, Remote<BenchObject>& object, RemoteBenchResult& r) {
  std::vector<double> bare_rates, up, down;
  const auto floats = static_cast<int64_t>(static_cast<size_t>(s.large_bytes) / sizeof(float));
  const auto rate = [&](const std::function<void()>& f) {
    return mb_per_s(times_us(s.large_transfers, f), s.large_bytes);
  };
  for (int round = -1; round < s.rounds; ++round) {
    const double bare_rate = rate([&] { bare.send_block(static_cast<size_t>(s.large_bytes)); });
    const double up_rate = rate([&] { receive(object, floats); });
    const double down_rate = rate([&] { send(object, floats); });
    if (round < 0) continue;
    bare_rates.push_back(bare_rate);
    up.push_back(up_rate);
    down.push_back(down_rate);
  }
  r.large_bare_mb_per_s = quantile(bare_rates, 0.5);
  r.large_mb_per_s_up = quantile(up, 0.5);
  r.large_mb_per_s_down = quantile(down, 0.5);
}

// A folder for secrets, gone with this.
class Secrets {
 public:
  explicit Secrets(const std::string& engine) : folder_(fresh()) {
    if (engine == "tcp+token") make_token(token());
    if (engine == "tcp+tls") make_certificates(folder_ + "/tls", {"127.0.0.1"});
  }
  ~Secrets() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Secrets(const Secrets&) = delete;
  Secrets& operator=(const Secrets&) = delete;
  std::string token() const { return folder_ + "/token"; }
  std::string certificates(const char* whose) const { return folder_ + "/tls/" + whose; }

 private:
  static std::string fresh() {
    const auto path = std::filesystem::temp_directory_path() /
                      fmt::format("parl-bench-{}-{:08x}", ::getpid(), std::random_device()());
    std::filesystem::create_directories(path);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path.string();
  }
  const std::string folder_;
};

// A manager, and for tcp a worker process of this program that dials in to it.
class Bench {
 public:
  explicit Bench(const std::string& engine) : secrets_(engine), manager_(options(engine)) {
    if (is_tcp(engine)) start_worker(engine);
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
  static bool is_tcp(const std::string& engine) { return engine.starts_with("tcp"); }
  RemoteManager& manager() { return manager_; }
  Remote<BenchObject>& object() { return object_; }

 private:
  Options options(const std::string& engine) const {
    Options o;
    o.engine = is_tcp(engine) ? "tcp://127.0.0.1:0" : engine;
    if (engine == "tcp+token") o.token_file = secrets_.token();
    if (engine == "tcp+tls") o.certificates = secrets_.certificates("learner");
    return o;
  }
  void start_worker(const std::string& engine) {
    std::vector<std::string> words = {"parl", "--parl-worker", manager_.engine(), "--slots",
                                      std::to_string(kListeners + 2)};
    if (engine == "tcp+token") words.insert(words.end(), {"--parl-token-file", secrets_.token()});
    if (engine == "tcp+tls") words.insert(words.end(), {"--parl-certificates", secrets_.certificates("worker")});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int error = posix_spawn(&worker_, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ);
    PARL_CHECK(error == 0, "no worker process: {}", std::generic_category().message(error));
  }
  const Secrets secrets_;
  RemoteManager manager_;
  pid_t worker_ = 0;
  Remote<BenchObject> object_;
};

void measure_life(const RemoteBenchSettings& s, Bench& bench, RemoteBenchResult& r) {
  constexpr double kToMs = 1e-3;
  auto listeners = bench.manager().create_all<BenchObject>(kListeners);
  const Array news = BenchObject::make_array(kBroadcastFloats);
  const auto tell = [&] {
    for (auto& heard : broadcast(listeners, &BenchObject::take, news)) heard.get();
  };
  tell();
  r.broadcast_ms = kToMs * quantile(times_us(s.repeats, tell), 0.5);
  listeners.clear();
  std::vector<double> births;
  for (int i = 0; i < s.repeats; ++i) {
    Remote<BenchObject> born;
    births.push_back(times_us(1, [&] {
      born = bench.manager().create<BenchObject>();
      born->sum(1, 2);
    })[0]);
    born.close();
  }
  r.first_call_ms = kToMs * quantile(births, 0.5);
}

double kill_to_error_us(const std::string& engine) {
  Bench bench(engine);
  auto waiting = bench.object().async()->wait();
  bench.manager().status();  // the call is on its way
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return times_us(1, [&] {
    kill(static_cast<pid_t>(bench.object().pid()), SIGKILL);
    try {
      waiting.get();
    } catch (const RemoteError&) {
    }
  })[0];
}

}  // namespace

const std::vector<std::string>& remote_bench_engines() {
  static const std::vector<std::string> kAll = {"inline", "thread", "process", "tcp", "tcp+token", "tcp+tls"};
  return kAll;
}

RemoteBenchResult run_remote_bench(const RemoteBenchSettings& s) {
  PARL_CHECK(s.rounds > 0 && s.calls >= 10 && s.window > 0 && s.transfers > 0,
             "the benchmark needs rounds, transfers, a window, and at least 10 calls");
  RemoteBenchResult r;
  r.engine = s.engine;
  const std::string bare_engine = Bench::is_tcp(s.engine) ? "tcp" : s.engine;
  {
    const PinnedToOneCore pinned;
    const auto bare = make_bare_peer(bare_engine);
    Bench bench(s.engine);
    measure_latency(s, *bare, bench.object(), r);
    measure_bandwidth(s, *bare, bench.object(), r);
    if (s.large_transfers > 0) measure_large(s, *bare, bench.object(), r);
    if (s.repeats > 0) measure_life(s, bench, r);
  }
  const bool can_be_killed = s.engine == "process" || Bench::is_tcp(s.engine);
  if (s.repeats > 0 && can_be_killed) {
    std::vector<double> times;
    for (int i = 0; i < s.repeats; ++i) times.push_back(kill_to_error_us(s.engine));
    r.kill_to_error_ms = 1e-3 * quantile(times, 0.5);
  }
  if (s.unpinned_calls > 0) {
    const auto bare = make_bare_peer(bare_engine);
    Bench bench(s.engine);
    r.unpinned_bare_us_p50 = quantile(times_us(s.unpinned_calls, [&] { bare->round_trip(); }), 0.5);
    r.unpinned_call_us_p50 = quantile(times_us(s.unpinned_calls, [&] { bench.object()->sum(1, 2); }), 0.5);
  }
  return r;
}

// Its last line: "AES-128-GCM    4567890.12k", in thousands of bytes per second.
std::optional<double> openssl_mb_per_s() {
  const PinnedToOneCore pinned;
  std::FILE* pipe = ::popen("openssl speed -evp aes-128-gcm -bytes 16384 -seconds 2 2>/dev/null", "r");
  if (!pipe) return std::nullopt;
  std::string last;
  char line[512];
  while (std::fgets(line, sizeof line, pipe))
    if (std::string_view(line).find("GCM") != std::string_view::npos) last = line;
  ::pclose(pipe);
  const size_t number = last.find_last_of(" \t");
  const double thousands = number == std::string::npos ? 0 : std::strtod(last.c_str() + number, nullptr);
  return thousands > 0 ? std::optional(thousands * 1e-3) : std::nullopt;
}

}  // namespace parl::cli
