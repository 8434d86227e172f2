// Faults of workers and of the network: the right kind of error in time, others untouched, and service goes on.
#include <sys/resource.h>

#include <cstdio>
#include <stdexcept>

#include "parl/remote/internal/tcp_test.h"

namespace tcp_faults_test {
class Hopeless {
 public:
  static void raise_error(const std::string& why) { throw std::runtime_error(why); }
  int fail(const std::string& why) noexcept {
    std::fprintf(stdout, "said before\n");
    raise_error(why);
    return 0;
  }
  // Without an end that the stack could hold.
  int dig(int depth) {
    if (depth < 0) return 0;
    volatile char earth[4096];
    earth[depth % 4096] = 1;
    return dig(depth + 1) + earth[0];
  }
};
PARL_REMOTE_CLASS(Hopeless, fail, dig);
}  // namespace tcp_faults_test

namespace parl::internal {
namespace {

// Without a learner a worker does not stay for ever, if it is told so.
TEST(TcpFaults, AWorkerThatNeverHasALearnerGivesUpWhenItIsToldTo) {
  const std::string nobody = free_tcp_address();
  TestWorker patient(nobody, 1, {{"PARL_WORKER_PATIENCE", "1"}, {"PARL_WORKER_FIRST_PATIENCE", "0"}});
  TestWorker worker(nobody, 1, {{"PARL_WORKER_PATIENCE", "1"}});
  EXPECT_EQ(worker.wait_end(), 1);
  EXPECT_THAT(worker.output(), HasSubstr("has ever answered"));
  EXPECT_THAT(worker.output(), HasSubstr("PARL_WORKER_PATIENCE"));
  TestWorker wrong(nobody, 1, {{"PARL_WORKER_FIRST_PATIENCE", "soon"}});
  EXPECT_EQ(wrong.wait_end(), 1);
  EXPECT_THAT(wrong.output(), HasSubstr("PARL_WORKER_FIRST_PATIENCE wants a number of seconds from 0 on"));
  RemoteManager manager(tcp(nobody));
  EXPECT_EQ(manager.create<Counter>(3).pid(), patient.pid()) << "it still dials";
}

// A worker that stands still is lost, and what waits for its place is not an object.
TEST(TcpFaults, SlotsCountObjectsThatLive) {
  Options options = tcp("tcp://127.0.0.1:0");
  options.heartbeat_timeout = 400ms;
  RemoteManager manager(options);
  const TestWorker one(manager.engine(), 1), two(manager.engine(), 1);
  ASSERT_TRUE(eventually([&] { return manager.slots().total == 2; }, 20s));
  auto a = manager.create<Counter>(1), b = manager.create<Counter>(2);
  EXPECT_EQ(manager.slots().used, 2);
  const TestWorker& stopped = a.pid() == one.pid() ? one : two;
  stop_process(stopped.pid());
  auto waiting =
      std::async(std::launch::async, [&] { return manager.create<Counter>(Place{.timeout = 20s}, 3)->get(); });
  ASSERT_TRUE(eventually([&] { return manager.slots().total == 1; }, 20s));
  EXPECT_FALSE(waiting.wait_for(kHeartbeat / 10) == std::future_status::ready);
  const RemoteSlots slots = manager.slots();
  EXPECT_EQ(slots.used, 1);
  EXPECT_EQ(slots.vacant, 0);
  b.close();
  EXPECT_EQ(waiting.get(), 3);
  stopped.signal(SIGCONT);
}

TEST(TcpFaults, AKilledWorkerAmongMany) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker one(manager.engine(), 2), two(manager.engine(), 2);
  ASSERT_TRUE(eventually([&] { return manager.slots().total == 4; }, 20s));
  auto objects = manager.create_all<Trouble>(4);
  std::vector<Future<bool>> held;
  std::vector<std::unique_ptr<Gate>> arrived;
  const Gate go;
  for (auto& object : objects) {
    arrived.push_back(std::make_unique<Gate>());
    held.push_back(object.async()->hold(arrived.back()->path(), go.path()));
  }
  for (const auto& gate : arrived) ASSERT_TRUE(Gate::wait(gate->path()));
  const double took = seconds_of([&] {
    one.signal(SIGKILL);
    for (size_t i = 0; i < objects.size(); ++i) {
      if (objects[i].pid() != one.pid()) continue;
      const auto error = expect_remote_error(RemoteErrorKind::kLost, [&] { held[i].get(); });
      EXPECT_THAT(error.what(), HasSubstr(std::to_string(one.pid())));
    }
  });
  EXPECT_LT(took, 1.0);
  EXPECT_TRUE(eventually([&] { return manager.slots().total == 2; }));
  go.open();
  for (size_t i = 0; i < objects.size(); ++i) {
    if (objects[i].pid() == two.pid()) {
      EXPECT_TRUE(held[i].get());
    }
  }
}

TEST(TcpFaults, AStoppedWorkerIsLostAfterTheHeartbeatAndOthersAreNot) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker stopped(manager.engine(), 1), fine(manager.engine(), 1);
  ASSERT_TRUE(eventually([&] { return manager.slots().total == 2; }, 20s));
  auto counters = manager.create_all<Counter>(2);
  Remote<Counter>& silent = counters[counters[0].pid() == stopped.pid() ? 0 : 1];
  Remote<Counter>& other = counters[counters[0].pid() == stopped.pid() ? 1 : 0];
  stop_process(stopped.pid());
  auto late = silent.async()->get();
  const double took = seconds_of([&] {
    const auto error = expect_remote_error(RemoteErrorKind::kLost, [&] { late.get(); });
    EXPECT_THAT(error.what(), HasSubstr("no sign of life"));
  });
  EXPECT_GT(took, 0.5);
  EXPECT_EQ(other->increment(), 1);
  stopped.signal(SIGCONT);  // it finds that it was given up, and comes again
  EXPECT_TRUE(eventually([&] { return manager.slots().total == 2; }, 20s));
  EXPECT_EQ(manager.create<Counter>(8)->get(), 8);
}

TEST(TcpFaults, TheLastWordsOfAWorkerThatTerminates) {
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker worker(manager.engine(), 1);
  auto hopeless = manager.create<tcp_faults_test::Hopeless>();
  const auto error = expect_remote_error(RemoteErrorKind::kLost, [&] { hopeless->fail("it was not meant so"); });
  EXPECT_THAT(error.what(), HasSubstr("said before"));
  EXPECT_THAT(error.what(), HasSubstr("it was not meant so"));
}

TEST(TcpFaults, AWorkerThatIsAskedToStopSaysGoodbye) {
  Options options = tcp("tcp://127.0.0.1:0");
  options.heartbeat_timeout = 60s;  // it is not this that tells the learner
  RemoteManager manager(options);
  const TestWorker worker(manager.engine(), 2);
  auto trouble = manager.create<Trouble>();
  const Gate arrived, go;
  auto held = trouble.async()->hold(arrived.path(), go.path());  // returns when it is asked to stop
  ASSERT_TRUE(Gate::wait(arrived.path()));
  const double took = seconds_of([&] {
    worker.signal(SIGTERM);
    const auto error = expect_remote_error(RemoteErrorKind::kLost, [&] { held.get(); });
    EXPECT_THAT(error.message(), HasSubstr("worker was asked to stop (SIGTERM)"));
    EXPECT_TRUE(eventually([&] { return manager.slots().total == 0; }));
  });
  EXPECT_LT(took, 10);
  EXPECT_EQ(worker.wait_end(), 128 + SIGTERM);
  EXPECT_EQ(manager.status().lost, 0u) << "it was a goodbye";
}

TEST(TcpFaults, AWorkerWithoutALearnerStopsToo) {
  TestWorker worker(free_tcp_address(), 1);
  ASSERT_TRUE(eventually([&] { return worker.output().find("trying again") != std::string::npos; }, 20s));
  worker.signal(SIGTERM);
  EXPECT_EQ(worker.wait_end(), 128 + SIGTERM);
}

TEST(TcpFaults, AnOverflowOfTheStackIsNamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has its own handler and stack";
#endif
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  const TestWorker worker(manager.engine(), 1);
  auto hopeless = manager.create<tcp_faults_test::Hopeless>();
  const auto error = expect_remote_error(RemoteErrorKind::kLost, [&] { hopeless->dig(1); });
  EXPECT_THAT(error.what(), HasSubstr("was killed by signal 11"));
  EXPECT_TRUE(eventually([&] { return manager.status().lost == 1; }));
  EXPECT_EQ(worker.wait_end(), -SIGSEGV);
}

TEST(TcpFaults, AKilledLearnerIsFollowedByTheNext) {
  const std::string address = free_tcp_address();
  const TestWorker worker(address, 1);
  int report[2];
  ASSERT_EQ(::pipe(report), 0);
  const pid_t learner = ::fork();
  if (learner == 0) {  // a learner of its own: makes an object, says so, and is killed
    RemoteManager manager(tcp(address));
    auto counter = manager.create<Counter>(1);
    const char value = static_cast<char>(counter->get());
    if (::write(report[1], &value, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char value = 0;
  ASSERT_EQ(::read(report[0], &value, 1), 1);
  EXPECT_EQ(value, 1);
  ::kill(learner, SIGKILL);
  ::waitpid(learner, nullptr, 0);
  RemoteManager manager(tcp(address));
  auto counter = manager.create<Counter>(2);
  EXPECT_EQ(counter->get(), 2);
  EXPECT_EQ(counter.pid(), worker.pid());
  ::close(report[0]);
  ::close(report[1]);
}

TEST(TcpFaults, ALearnerThatNeverAnswersTheHandshake) {
  Address address = parse_address("tcp://127.0.0.1:0");
  const std::vector<UniqueFd> silent = listen_on(address);  // the kernel takes the connection, nobody reads it
  std::string said;
  const double took = seconds_of([&] { said = offer_object(Counter(1), address.text(), 300ms).get(); });
  EXPECT_THAT(said, HasSubstr("no learner"));
  EXPECT_LT(took, 5);
}

struct Behind {
  Behind() : proxy(free_manager.engine()), worker(proxy.address(), 2) {
    counter = free_manager.create<Counter>(1);
    EXPECT_EQ(counter->get(), 1);
  }
  RemoteManager free_manager{tcp("tcp://127.0.0.1:0")};
  TestProxy proxy;
  TestWorker worker;
  Remote<Counter> counter;
};

void expect_lost_and_found(Behind& b, double at_most) {
  const double took = seconds_of([&] {
    expect_remote_error(RemoteErrorKind::kLost, [&] {
      for (;;) b.counter->get();
    });
  });
  EXPECT_LT(took, at_most);
  b.proxy.cut();
  b.proxy.set(TestProxy::Mode::kPass);
  EXPECT_EQ(b.free_manager.create<Counter>(7)->get(), 7) << "the worker has dialled again";
}

TEST(TcpFaults, ALinkThatIsCut) {
  Behind b;
  b.proxy.cut();
  expect_lost_and_found(b, 1);
}

TEST(TcpFaults, ALinkThatIsReset) {
  Behind b;
  b.proxy.cut(true);
  expect_lost_and_found(b, 1);
}

TEST(TcpFaults, ALinkThatIsHalfOpen) {
  Behind b;
  b.proxy.set(TestProxy::Mode::kSwallow);
  expect_lost_and_found(b, 10);
}

TEST(TcpFaults, ALinkThatStallsForLong) {
  Behind b;
  b.proxy.set(TestProxy::Mode::kStall);
  expect_lost_and_found(b, 10);
}

TEST(TcpFaults, ALinkThatStallsForAMoment) {
  Behind b;
  b.proxy.set(TestProxy::Mode::kStall);
  auto late = b.counter.async()->increment();
  EXPECT_FALSE(late.wait_for(kHeartbeat / 4));
  b.proxy.set(TestProxy::Mode::kPass);
  EXPECT_EQ(late.get(10s), 2);
}

TEST(TcpFaults, ASlowLinkKeepsOrderAndValues) {
  Behind b;
  b.proxy.set_delay(20ms);
  std::vector<Future<int>> results;
  for (int i = 0; i < 100; ++i) results.push_back(b.counter.async()->increment());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(results[static_cast<size_t>(i)].get(), i + 2);
  auto values = b.free_manager.create<Values>();
  Array a = Array::of<double>({300000});
  EXPECT_EQ(values->echo_array(a), a);
}

TEST(TcpFaults, AWorkerWhoseLearnerIsCutOffMidFrame) {
  Behind b;
  auto values = b.free_manager.create<Values>();
  b.proxy.set(TestProxy::Mode::kStall);
  auto lost = values.async()->bytes_of(Array::of<uint8_t>({32 << 20}));
  b.proxy.cut();
  b.proxy.set(TestProxy::Mode::kPass);
  expect_remote_error(RemoteErrorKind::kLost, [&] { lost.get(); });
  EXPECT_EQ(b.free_manager.create<Values>()->bytes_of(Array::of<uint8_t>({32 << 20})), 32 << 20);
}

// In a child with few descriptors: those too many are turned away with a word, and when some go, others may come.
int run_out_of_descriptors(const std::string& log) {
  const rlimit few{40, 40};
  ::setrlimit(RLIMIT_NOFILE, &few);
  log_to_file(log);
  std::ifstream reading(log);  // while there is a descriptor for it
  const auto is_said = [&] {
    reading.clear();
    reading.seekg(0);
    const std::string text((std::istreambuf_iterator<char>(reading)), std::istreambuf_iterator<char>());
    return text.find("open descriptors is reached") != std::string::npos;
  };
  RemoteManager manager(tcp("tcp://127.0.0.1:0"));
  std::vector<UniqueFd> sockets;
  const Address address = parse_address(manager.engine());
  for (;;) {
    try {
      sockets.push_back(connect_to(address, std::chrono::steady_clock::now() + 5s));
    } catch (const Error&) {
      break;  // ours have run out too: it is one process
    }
  }
  if (!eventually(is_said)) return 1;
  sockets.clear();
  auto offered = offer_object(Counter(6), manager.engine());
  const int value = manager.get_remote<Counter>()->get();
  return value == 6 && offered.get() == "returned" ? 0 : 2;
}

TEST(TcpFaults, DescriptorsUsedUp) {
  const TemporaryFile log("");
  EXPECT_EXIT(std::_Exit(run_out_of_descriptors(log.path)), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace parl::internal
