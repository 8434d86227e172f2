// What a learner tells about itself and its workers, to whom, and what it does not.
#include "parl/remote/status.h"

#include <poll.h>
#include <sys/socket.h>

#include "parl/remote/internal/metrics_server.h"
#include "parl/remote/internal/peer_meter.h"
#include "parl/remote/internal/tcp_test.h"

namespace parl::internal {
namespace {

// Waits until a worker's row satisfies `f`.
template <typename F>
WorkerStatus wait_for_row(const std::string& address, F&& f) {
  WorkerStatus row;
  EXPECT_TRUE(eventually(
      [&] {
        const ManagerStatus status = ask_status(address);
        if (status.list.empty()) return false;
        row = status.list.front();
        return f(row);
      },
      20s));
  return row;
}

// What a server at `address` answers to these bytes.
std::string answer_to(const std::string& address, const std::string& request) {
  const UniqueFd socket = connect_to(parse_address(address), std::chrono::steady_clock::now() + 5s);
  EXPECT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::string text;
  for (;;) {
    pollfd poll{socket.get(), POLLIN, 0};
    if (::poll(&poll, 1, 10000) != 1) return text + "(no end)";
    char buffer[4096];
    const ssize_t got = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (got <= 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

TEST(Status, EachWorkerHasARow) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker worker(manager.engine(), 3, {}, {"--gpus", "2,5"});
  auto counter = manager.create<Counter>(1);
  auto trouble = manager.create<Trouble>();
  for (int i = 0; i < 20; ++i) counter->increment();
  expect_remote_error(RemoteErrorKind::kThrew, [&] { trouble->throw_runtime("it went wrong"); });
  const WorkerStatus row = wait_for_row(manager.engine(), [&](const WorkerStatus& w) {
    counter->increment();  // so that there is a rate, however slow this is
    return w.calls >= 21 && w.calls_per_s > 0;
  });
  EXPECT_EQ(row.host, this_host());
  EXPECT_EQ(row.pid, worker.pid());
  EXPECT_THAT(row.address, HasSubstr("127.0.0.1:"));
  EXPECT_EQ(row.slots, 3);
  EXPECT_EQ(row.objects, 2);
  EXPECT_EQ(row.gpus, (std::vector<int>{2, 5}));
  EXPECT_GT(row.bytes_sent, 20u * 48);
  EXPECT_GT(row.bytes_received, 20u * 48);
  EXPECT_GT(row.bytes_per_s, 0);
  EXPECT_GT(row.memory_bytes, 1u << 20);
  EXPECT_GT(row.age_s, 0);
  EXPECT_THAT(row.last_error, HasSubstr("Trouble#1.throw_runtime: threw std::runtime_error"));
  EXPECT_THAT(row.last_error, HasSubstr("it went wrong"));
  const ManagerStatus status = manager.status();
  EXPECT_EQ(status.engine, manager.engine());
  EXPECT_EQ(status.pid, ::getpid());
  EXPECT_EQ(status.workers, 1);
  EXPECT_EQ(status.slots.total, 3);
  EXPECT_EQ(status.slots.used, 2);
  EXPECT_GE(status.stats.calls, 21u);
  EXPECT_EQ(status.stats.errors, 1u);
}

TEST(Status, AWorkersFactsComeWithItsHeartbeat) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker worker(manager.engine(), 1);
  wait_for_row(manager.engine(), [](const WorkerStatus& w) { return w.memory_bytes > 0; });
  wait_for_row(manager.engine(), [](const WorkerStatus& w) { return w.age_s > 1 && w.silent_s < w.age_s / 2; });
}

TEST(Status, AnObserverIsNoWorkerAndTakesNoPlace) {
  Options options = tcp("tcp://127.0.0.1:0");
  options.max_connections = 1;
  RemoteManager manager(options);
  const TestWorker worker(manager.engine(), 1);
  auto counter = manager.create<Counter>(1);
  for (int i = 0; i < 50; ++i) {
    const ManagerStatus status = ask_status(manager.engine());
    EXPECT_EQ(status.workers, 1);
    EXPECT_EQ(status.lost, 0u);
  }
  TestWorker other(manager.engine(), 1);
  EXPECT_TRUE(eventually([&] { return other.output().find("no more are taken") != std::string::npos; }, 20s));
  EXPECT_EQ(manager.slots().total, 1);
  EXPECT_EQ(counter->increment(), 2);
  EXPECT_EQ(manager.status().lost, 0u);
}

TEST(Status, LossesAreCountedAndSaid) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  auto worker = std::make_unique<TestWorker>(manager.engine(), 1);
  ASSERT_TRUE(eventually([&] { return manager.slots().total == 1; }, 20s));
  const int64_t pid = worker->pid();
  worker->signal(SIGKILL);
  ASSERT_TRUE(eventually([&] { return ask_status(manager.engine()).lost == 1; }));
  EXPECT_THAT(manager.status().last_losses.front(), HasSubstr(std::to_string(pid)));
}

TEST(Status, OfferedObjectsAreListedApart) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  auto offered = offer_object(Counter(1), manager.engine());
  const WorkerStatus row = wait_for_row(manager.engine(), [](const WorkerStatus& w) { return w.is_object; });
  EXPECT_EQ(row.slots, 0);
  EXPECT_EQ(manager.status().workers, 0);
  EXPECT_EQ(manager.status().offers, 1);
  manager.get_remote<Counter>().reset();
  EXPECT_EQ(offered.get(), "returned");
}

TEST(Status, OnlyWhoMayComeMayAsk) {
  const TemporaryFile token("the-right-token-0123456789\n"), other("the-wrong-token-0123456789\n");
  Options options = tcp("tcp://127.0.0.1:0");
  options.token_file = token.path;
  RemoteManager manager(options);
  const auto why = [&] {
    try {
      ask_status(manager.engine());
      return std::string("told");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(why(), HasSubstr("token"));
  {
    const TestVariable wrong("PARL_TOKEN_FILE", other.path);
    EXPECT_THAT(why(), HasSubstr("token is not the one"));
  }
  const TestVariable right("PARL_TOKEN_FILE", token.path);
  EXPECT_EQ(why(), "told");
}

TEST(Status, NobodyThereIsAnError) {
  EXPECT_THROW(ask_status(free_tcp_address(), 200ms), Error);
  Address address = parse_address("tcp://127.0.0.1:0");
  const std::vector<UniqueFd> silent = listen_on(address);
  try {
    ask_status(address.text(), 100ms);
    FAIL() << "somebody has answered";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no answer in time"));
  }
}

TEST(Status, EveryEngineHasOne) {
  for (const char* engine : {"inline", "thread", "process"}) {
    RemoteManager manager(engine);
    auto counter = manager.create<Counter>(1);
    counter->increment();
    const ManagerStatus status = manager.status();
    EXPECT_EQ(status.stats.calls, 1u) << engine;
    EXPECT_EQ(status.slots.used, 1) << engine;
    EXPECT_GT(status.memory_bytes, 1u << 20) << engine;
  }
}

TEST(Status, RatesAreThoseOfTheLastSamples) {
  PeerMeter meter;
  meter.start();
  for (int i = 0; i < 10; ++i) meter.count_answer();
  meter.sample(1000);
  meter.sample(1000);  // the ten are older now than both
  WorkerStatus status;
  meter.describe(status, 600, 400);
  EXPECT_EQ(status.calls, 10u);
  EXPECT_EQ(status.calls_per_s, 0);
  EXPECT_EQ(status.bytes_per_s, 0);
  meter.count_answer();
  meter.describe(status, 700, 400);
  EXPECT_GT(status.calls_per_s, 0);
  EXPECT_GT(status.bytes_per_s, 0);
}

TEST(Status, TextsAreCutBetweenCharacters) {
  EXPECT_EQ(shortened("short", 10), "short");
  EXPECT_EQ(shortened("much too long", 8), "much ...");
  EXPECT_EQ(shortened("aaa\xc3\xa4\xc3\xa4\xc3\xa4", 7), "aaa...");
}

// ---- Prometheus ----

TEST(Metrics, TheTextIsWhatPrometheusReads) {
  ManagerStatus status;
  status.workers = 1;
  status.stats.calls = 12;
  WorkerStatus worker;
  worker.host = "a\"b\\c";
  worker.pid = 7;
  worker.calls = 5;
  status.list = {worker};
  const std::string text = to_prometheus(status);
  EXPECT_THAT(text, HasSubstr("# TYPE parl_calls_total counter\nparl_calls_total 12\n"));
  EXPECT_THAT(text, HasSubstr("parl_worker_calls_total{host=\"a\\\"b\\\\c\",pid=\"7\"} 5\n"));
}

TEST(Metrics, AreServedOverHttpAndNothingElseIs) {
  if (!MetricsServer::is_built_in()) GTEST_SKIP() << "built without cpp-httplib";
  Options options;
  options.engine = "thread";
  options.metrics = "127.0.0.1:0";
  RemoteManager manager(options);
  const std::string where = manager.options().metrics;
  auto counter = manager.create<Counter>(1);
  counter->increment();
  const std::string answer = answer_to(where, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("200"));
  EXPECT_THAT(answer, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(answer, HasSubstr("\nparl_calls_total 1\n"));
  EXPECT_THAT(answer_to(where, "GET /etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("404"));
  EXPECT_THAT(answer_to(where, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), HasSubstr("404"));
  options.metrics = where;
  EXPECT_THROW(RemoteManager second(options), Error) << "the port is in use";
}

TEST(Metrics, TheProgramsSignalHandlersStay) {
  if (!MetricsServer::is_built_in()) GTEST_SKIP() << "built without cpp-httplib";
  struct sigaction before {
  }, after{};
  ::sigaction(SIGPIPE, nullptr, &before);
  const MetricsServer server("127.0.0.1:0", false, [] { return std::string(); });
  ::sigaction(SIGPIPE, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(Metrics, BeyondThisMachineOnlyWhereEverybodyIsTrusted) {
  const auto why = [](const std::string& where, bool is_insecure) {
    try {
      const MetricsServer server(where, is_insecure, [] { return std::string(); });
      return std::string("served");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(why("0.0.0.0:0", false), HasSubstr("--parl-insecure"));
  EXPECT_THAT(why("unix:/tmp/x", false), HasSubstr("host:port"));
  const std::string open = why("0.0.0.0:0", true);
  if (MetricsServer::is_built_in()) {
    EXPECT_EQ(open, "served");
  } else {
    EXPECT_THAT(open, HasSubstr("libcpp-httplib-dev"));
  }
}

}  // namespace
}  // namespace parl::internal
