#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

#include <spdlog/sinks/base_sink.h>

#include "parl/core/log.h"
#include "parl/remote/internal/process_test_class.h"
#include "parl/remote/internal/spawn.h"
#include "parl/remote/internal/test_environment.h"

namespace parl::internal {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// The kind and text of the RemoteError that `f` throws.
template <typename F>
std::pair<RemoteErrorKind, std::string> error_of(F&& f) {
  try {
    f();
  } catch (const RemoteError& e) {
    return {e.kind(), e.what()};
  }
  ADD_FAILURE() << "no RemoteError";
  return {RemoteErrorKind::kThrew, ""};
}

template <typename C>
std::pair<RemoteErrorKind, std::string> failure_of(Probe& probe, C& call, Clock::duration limit = 10s) {
  EXPECT_TRUE(probe->wait(*call, Clock::now() + limit)) << "no outcome in time";
  return error_of([&] { call->settle(); });
}

size_t entries(const char* directory) {
  size_t count = 0;
  DIR* dir = ::opendir(directory);
  while (::readdir(dir)) ++count;
  ::closedir(dir);
  return count;
}
size_t children() {
  size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "children");
    int pid;
    while (file >> pid) ++count;
  }
  return count;
}

// Collects the learner's log while it lives.
class LogTrap {
 public:
  LogTrap() { log().sinks().push_back(sink_); }
  ~LogTrap() { log().sinks().pop_back(); }
  bool wait_for(const std::string& text) {
    for (const auto end = Clock::now() + 10s; Clock::now() < end; std::this_thread::sleep_for(1ms))
      if (sink_->has(text)) return true;
    return false;
  }
  bool has(const std::string& text) { return sink_->has(text); }

 private:
  class Sink : public spdlog::sinks::base_sink<std::mutex> {
   public:
    bool has(const std::string& text) {
      std::lock_guard lock(mutex_);
      for (const auto& line : lines_)
        if (line.find(text) != std::string::npos) return true;
      return false;
    }

   protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
      lines_.emplace_back(message.payload.data(), message.payload.size());
    }
    void flush_() override {}

   private:
    std::vector<std::string> lines_;
  };
  std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
};

TEST(ProcessEngine, CallsRunInAnotherProcess) {
  ProbeEngine engine;
  Probe probe = engine.create();
  EXPECT_NE(probe->pid(), ::getpid());
  EXPECT_EQ((probe.get<int>(Do::kAdd, 2, 3)), 5);
  EXPECT_EQ((probe.get<std::string>(Do::kEcho, std::string("hello"))), "hello");
  const std::string large(300000, 'x');
  EXPECT_EQ((probe.get<std::string>(Do::kEcho, large)), large);
}

TEST(ProcessEngine, AnExceptionFailsOneCallAndTheObjectLivesOn) {
  ProbeEngine engine;
  Probe probe = engine.create();
  auto call = probe.start<int>(Do::kThrow, std::string("out of range"));
  const auto [kind, text] = failure_of(probe, call);
  EXPECT_EQ(kind, RemoteErrorKind::kThrew);
  EXPECT_THAT(text, HasSubstr("out of range"));
  EXPECT_THAT(text, HasSubstr("std::domain_error"));
  EXPECT_EQ((probe.get<int>(Do::kAdd, 1, 1)), 2);
}

TEST(ProcessEngine, ManyCallsInFlightFromManyThreads) {
  ProbeEngine engine;
  Probe probe = engine.create();
  std::vector<std::jthread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Ref<ProbeCall<int, int, int>>> calls;
      for (int i = 0; i < 500; ++i) calls.push_back(probe.start<int>(Do::kAdd, t * 1000, i));
      for (int i = 0; i < 500; ++i) {
        probe->wait(*calls[i], kForever);
        calls[i]->settle();
        good += calls[i]->take() == t * 1000 + i;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(good, 2000);
}

TEST(ProcessEngine, TheMailboxIsBounded) {
  Options options;
  options.max_calls = 3;
  options.max_bytes = 1000;
  ProbeEngine engine(options);
  Probe probe = engine.create();
  auto sleeper = probe.start<int>(Do::kSleep, 300);
  auto second = probe.start<int>(Do::kAdd, 1, 1);
  const auto try_submit = [&](size_t bytes) {
    auto call = CallRef::adopt(new ProbeCall<int, int, int>(Do::kAdd, bytes, 1, 2));
    call->set_channel(probe->shared_from_this());
    return probe->submit(call, kNoWait);
  };
  EXPECT_FALSE(try_submit(2000)) << "too many bytes together";
  EXPECT_TRUE(try_submit(10));
  EXPECT_FALSE(try_submit(10)) << "the fourth call";
  const auto start = Clock::now();
  auto waited = probe.start<int>(Do::kAdd, 5, 5);
  EXPECT_GT(Clock::now() - start, 50ms) << "async waits at the bound";
  probe->wait(*waited, kForever);
  EXPECT_TRUE(try_submit(2000)) << "one larger call alone";
}

TEST(ProcessEngine, AConstructorThatThrowsSaysSo) {
  ProbeEngine engine;
  const auto [kind, text] = error_of([&] { engine.create("throw"); });
  EXPECT_EQ(kind, RemoteErrorKind::kThrew);
  EXPECT_THAT(text, HasSubstr("no such probe"));
  EXPECT_THAT(text, HasSubstr("Probe#0"));
  EXPECT_EQ((engine.create().get<int>(Do::kAdd, 1, 2)), 3);
}

TEST(ProcessEngine, AWorkerThatEndsInTheConstructorIsLostWithItsLastWords) {
  ProbeEngine engine;
  const auto [kind, text] = error_of([&] { engine.create("exit"); });
  EXPECT_EQ(kind, RemoteErrorKind::kLost);
  EXPECT_THAT(text, HasSubstr("exited with status 9"));
  EXPECT_THAT(text, HasSubstr("cannot go on"));
}

TEST(ProcessEngine, AConstructorThatHangsEndsAtTheDeadline) {
  ProbeEngine engine;
  const auto start = Clock::now();
  const auto [kind, text] = error_of([&] { engine.create("hang", deadline_in(300ms)); });
  EXPECT_EQ(kind, RemoteErrorKind::kTimeout);
  EXPECT_LT(Clock::now() - start, 2s);
}

TEST(ProcessEngine, KilledInMidCallFailsWithinASecondAndTheNextCreateWorks) {
  ProbeEngine engine;
  Probe probe = engine.create();
  auto running = probe.start<int>(Do::kSleep, 60000);
  auto queued = probe.start<int>(Do::kAdd, 1, 2);
  const auto start = Clock::now();
  ::kill(static_cast<pid_t>(probe->pid()), SIGKILL);
  const auto [kind, text] = failure_of(probe, running);
  EXPECT_EQ(failure_of(probe, queued).first, RemoteErrorKind::kLost);
  EXPECT_LT(Clock::now() - start, 1s);
  EXPECT_EQ(kind, RemoteErrorKind::kLost);
  EXPECT_THAT(text, HasSubstr("killed by signal 9"));
  EXPECT_THAT(text, HasSubstr("Probe#0"));
  EXPECT_TRUE(probe->lost());
  auto later = probe.start<int>(Do::kAdd, 1, 2);
  EXPECT_EQ(failure_of(probe, later).first, RemoteErrorKind::kLost) << "later calls fail at once";
  EXPECT_EQ((engine.create().get<int>(Do::kAdd, 1, 2)), 3);
}

TEST(ProcessEngine, TheLastLinesOfADeadWorkerArePartOfItsError) {
  ProbeEngine engine;
  Probe probe = engine.create();
  auto call = probe.start<int>(Do::kKill, SIGABRT);
  const auto [kind, text] = failure_of(probe, call);
  EXPECT_EQ(kind, RemoteErrorKind::kLost);
  EXPECT_THAT(text, HasSubstr("killed by signal 6"));
  EXPECT_THAT(text, HasSubstr("about to die"));
  Probe other = engine.create();
  auto exits = other.start<int>(Do::kExit, 4);
  EXPECT_THAT(failure_of(other, exits).second, HasSubstr("exited with status 4"));
}

TEST(ProcessEngine, GoodbyeRunsAcceptedCallsThenTheDestructor) {
  LogTrap trap;
  ProbeEngine engine;
  Probe probe = engine.create("talks at the end");
  auto call = probe.start<int>(Do::kSleep, 50);
  auto last = probe.start<int>(Do::kAdd, 20, 22);
  probe->goodbye();
  auto refused = probe.start<int>(Do::kAdd, 1, 1);
  EXPECT_EQ(failure_of(probe, refused).first, RemoteErrorKind::kClosed);
  EXPECT_TRUE(probe->wait_gone(Clock::now() + 10s));
  last->settle();
  EXPECT_EQ(last->take(), 42);
  EXPECT_FALSE(probe->lost()) << "goodbye is no loss";
  EXPECT_TRUE(trap.wait_for("[Probe#0] object destroyed"));
}

TEST(ProcessEngine, TheSlotIsFreeSoonAfterGoodbye) {
  ProbeEngine engine;
  auto request = engine.request();
  auto slot = std::make_shared<int>(0);
  request.slot = slot;
  auto channel = engine.engine().create(request);
  request.slot.reset();
  EXPECT_EQ(slot.use_count(), 2);
  const auto start = Clock::now();
  channel->goodbye();
  while (slot.use_count() > 1 && Clock::now() - start < 5s) std::this_thread::sleep_for(100us);
  EXPECT_LT(Clock::now() - start, 50ms);
}

TEST(ProcessEngine, TheSlotOfAKilledWorkerIsFreeToo) {
  ProbeEngine engine;
  auto request = engine.request();
  auto slot = std::make_shared<int>(0);
  request.slot = slot;
  auto channel = engine.engine().create(request);
  request.slot.reset();
  ::kill(static_cast<pid_t>(channel->pid()), SIGKILL);
  EXPECT_TRUE(channel->wait_gone(Clock::now() + 5s));
  EXPECT_EQ(slot.use_count(), 1);
}

TEST(ProcessEngine, OutputReachesTheLogWithItsName) {
  LogTrap trap;
  const auto directory = std::filesystem::temp_directory_path() / fmt::format("parl-process-test-{}", ::getpid());
  {
    ProbeEngine engine;
    auto request = engine.request();
    request.placement.directory = directory;
    Probe probe(engine.engine().create(request));
    probe.get<int>(Do::kPrint, std::string("good morning"));
    EXPECT_TRUE(trap.wait_for("[Probe#0] good morning"));
  }
  std::ifstream file(directory / "worker.log");
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "good morning");
  std::filesystem::remove_all(directory);
}

TEST(ProcessEngine, DevicesAreSetBeforeTheProcessStarts) {
  const TestVariable gpus("CUDA_VISIBLE_DEVICES", "0,1,3");
  ProbeEngine engine;
  auto request = engine.request();
  request.placement.gpus = {1, 3};
  request.placement.devices = {1, 2};
  Probe probe(engine.engine().create(request));
  EXPECT_EQ((probe.get<std::string>(Do::kEnvironment, std::string("CUDA_VISIBLE_DEVICES"))), "1,3");
}

TEST(ProcessEngine, AGivenUpCallIsToldSoAndAQueuedOneIsSkipped) {
  LogTrap trap;
  ProbeEngine engine;
  Probe probe = engine.create();
  auto running = probe.start<int>(Do::kPollStop, 30000);
  auto queued = probe.start<int>(Do::kPrint, std::string("must not run"));
  EXPECT_TRUE(trap.wait_for("polling"));
  for (Call* call : {static_cast<Call*>(queued.get()), static_cast<Call*>(running.get())}) {
    call->give_up();
    call->fail(make_failure(RemoteErrorKind::kCancelled, "cancelled"));
    probe->given_up(*call);
  }
  EXPECT_TRUE(trap.wait_for("stopped early"));
  EXPECT_EQ((probe.get<int>(Do::kPrint, std::string("next one runs"))), 13);
  EXPECT_TRUE(trap.wait_for("next one runs"));
  EXPECT_FALSE(trap.has("must not run"));
  EXPECT_EQ((probe.get<int>(Do::kAdd, 1, 2)), 3);
}

TEST(ProcessEngine, SparesAreUsedAndReplaced) {
  Options options;
  options.spares = 2;
  ProbeEngine engine(options);
  EXPECT_EQ(children(), 2u);
  Probe first = engine.create(), second = engine.create();
  EXPECT_EQ(children(), 4u);
  EXPECT_EQ((second.get<int>(Do::kAdd, 1, 2)), 3);
}

TEST(ProcessEngine, AStoppedLearnerLosesNobody) {
  ProbeEngine engine;
  Probe probe = engine.create();
  auto call = probe.start<int>(Do::kSleep, 1000);
  const pid_t learner = ::getpid();
  const pid_t waker = ::fork();
  if (waker == 0) {
    ::kill(learner, SIGSTOP);
    ::usleep(1500 * 1000);
    ::kill(learner, SIGCONT);
    ::_exit(0);
  }
  ::waitpid(waker, nullptr, 0);
  EXPECT_TRUE(probe->wait(*call, Clock::now() + 5s));
  call->settle();
  EXPECT_EQ((probe.get<int>(Do::kAdd, 1, 2)), 3);
}

TEST(ProcessEngine, ShutdownFailsPendingCallsWithClosedAndEndsTheDeaf) {
  LogTrap trap;
  Probe probe, deaf;
  {
    ProbeEngine engine;
    probe = engine.create();
    deaf = engine.create("deaf");
    auto pending = probe.start<int>(Do::kSleep, 60000);
    auto pending_too = deaf.start<int>(Do::kSleep, 60000);
    EXPECT_TRUE(trap.wait_for("[Probe#0] sleeping"));
    EXPECT_TRUE(trap.wait_for("[Probe#1] sleeping"));
    const auto start = Clock::now();
    engine.shut_down(600ms);
    EXPECT_LT(Clock::now() - start, 3s);
    EXPECT_EQ(failure_of(probe, pending).first, RemoteErrorKind::kClosed);
    EXPECT_EQ(failure_of(deaf, pending_too).first, RemoteErrorKind::kClosed);
    EXPECT_EQ(children(), 0u);
  }
  auto later = probe.start<int>(Do::kAdd, 1, 2);
  EXPECT_EQ(failure_of(probe, later).first, RemoteErrorKind::kClosed);
}

TEST(ProcessEngine, OutOfDescriptorsIsAnErrorThatNamesLimitAndNeed) {
  ProbeEngine engine;
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit low{entries("/proc/self/fd") - 3, before.rlim_max};  // less ".", ".." and the listing's own
  ::setrlimit(RLIMIT_NOFILE, &low);
  std::string message;
  try {
    engine.create();
  } catch (const Error& e) {
    message = e.what();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(message, HasSubstr("open descriptors"));
  EXPECT_EQ((engine.create().get<int>(Do::kAdd, 1, 2)), 3);
}

TEST(ProcessEngine, AWorkerWithoutHelloIsATimeout) {
  Options options;
  options.hello_timeout = 0ms;
  ProbeEngine engine(options);
  // A worker may greet before this thread looks: that one is gone again, and the next is tried.
  const auto [kind, text] = error_of([&] {
    for (int i = 0; i < 100; ++i) engine.create();
  });
  EXPECT_EQ(kind, RemoteErrorKind::kTimeout);
  EXPECT_THAT(text, HasSubstr("no sign of life in 0 ms"));
  EXPECT_THAT(text, HasSubstr("parl::init"));
}

TEST(ProcessEngine, GarbageFromAWorkerEndsThatWorkerOnly) {
  ProbeEngine engine;
  Probe good = engine.create(), bad = engine.create();
  auto call = bad.start<int>(Do::kGarbage, std::string(100, '?'));
  const auto [kind, text] = failure_of(bad, call);
  EXPECT_EQ(kind, RemoteErrorKind::kLost);
  EXPECT_THAT(text, HasSubstr("another protocol"));
  EXPECT_EQ((good.get<int>(Do::kAdd, 1, 2)), 3);
}

TEST(ProcessEngine, ItsOwnChildrenDoNotHideAWorkersEnd) {
  ProbeEngine engine;
  Probe probe = engine.create();
  const int grandchild = probe.get<int>(Do::kSpawnChild);
  auto call = probe.start<int>(Do::kSleep, 60000);
  const auto start = Clock::now();
  ::kill(static_cast<pid_t>(probe->pid()), SIGKILL);
  EXPECT_EQ(failure_of(probe, call).first, RemoteErrorKind::kLost);
  EXPECT_LT(Clock::now() - start, 1s);
  ::kill(grandchild, SIGKILL);
}

#ifdef __SANITIZE_THREAD__  // sleeps a second in every exit
constexpr int kEndsWithinMs = 3000;
#else
constexpr int kEndsWithinMs = 1000;
#endif

// The learner is a process of its own here; `end` ends it while its worker computes.
void expect_busy_worker_ends_with(const std::function<void(pid_t learner)>& end) {
  int report[2];
  ASSERT_EQ(::pipe2(report, O_CLOEXEC), 0);
  const pid_t learner = ::fork();
  if (learner == 0) {
    ProbeEngine engine;
    Probe probe = engine.create();
    auto call = probe.start<int>(Do::kSleep, 60000);
    const int64_t pid = probe->pid();
    if (::fork() == 0) {  // somebody else holds the connection
      ::usleep(3000 * 1000);
      ::_exit(0);
    }
    ::usleep(100 * 1000);
    (void)!::write(report[1], &pid, sizeof pid);
    ::pause();
    ::_exit(0);
  }
  int64_t pid = 0;
  ASSERT_EQ(::read(report[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  const UniqueFd worker = open_pidfd(static_cast<pid_t>(pid));
  ASSERT_TRUE(worker);
  end(learner);
  pollfd ended{worker.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, kEndsWithinMs), 1) << "the worker lives on";
  ::waitpid(learner, nullptr, 0);
  ::close(report[0]);
  ::close(report[1]);
}

TEST(ProcessEngine, ABusyWorkerEndsWithAKilledLearner) {
  expect_busy_worker_ends_with([](pid_t learner) { ::kill(learner, SIGKILL); });
}

TEST(ProcessEngine, ABusyWorkerEndsWithATerminatedLearner) {
  expect_busy_worker_ends_with([](pid_t learner) { ::kill(learner, SIGTERM); });
}

TEST(ProcessEngine, AtMostFourDescriptorsAWorkerAndNothingIsLeftBehind) {
  {
    ProbeEngine engine;
    engine.create()->goodbye();
  }
  const size_t descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task");
  {
    ProbeEngine engine;
    const size_t with_engine = entries("/proc/self/fd");
    std::vector<Probe> probes;
    for (int i = 0; i < 8; ++i) probes.push_back(engine.create());
    for (Probe& probe : probes) probe.get<Array>(Do::kMakeArray, int64_t{1} << 17);
    EXPECT_LE(entries("/proc/self/fd"), with_engine + 4 * probes.size());
    for (Probe& probe : probes) probe->goodbye();
  }
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries("/proc/self/task"), threads);
  EXPECT_EQ(children(), 0u);
}

}  // namespace
}  // namespace parl::internal
