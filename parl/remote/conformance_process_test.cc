// What only a process can do: die, be killed, be stopped. The table of the suite is in conformance.h.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "parl/core/log.h"
#include "parl/remote/conformance.h"

namespace parl::conformance {

PARL_CONFORMANCE(Processes, "process");  // what belongs to a child of the learner

// Each object in a process of its own: tcp has four workers with one slot each.
class Losses : public Conformance {
  int worker_count() const override { return 4; }
  int slots_per_worker() const override { return 1; }
};
INSTANTIATE_TEST_SUITE_P(Engines, Losses, ::testing::Values("process", "tcp"), engine_name);

TEST_P(Losses, KilledInMidCall) {  // P7, 2
  RemoteManager manager(options_with_slots(1));
  auto trouble = manager.create<Trouble>();
  Gate arrived, go;
  auto running = trouble.async()->hold(arrived.path(), go.path());
  auto waiting = trouble.async()->fine();
  ASSERT_TRUE(Gate::wait(arrived.path()));
  const double took = seconds_of([&] {
    kill(static_cast<pid_t>(trouble.pid()), SIGKILL);
    const auto error = expect_remote_error(RemoteErrorKind::kLost, [&] { running.get(); });
    EXPECT_EQ(error.method(), "hold");
    expect_remote_error(RemoteErrorKind::kLost, [&] { waiting.get(); });
  });
  EXPECT_LT(took, 1.0);
  EXPECT_TRUE(trouble.lost());
  expect_remote_error(RemoteErrorKind::kLost, [&] { trouble->fine(); });
  EXPECT_EQ(manager.create<Trouble>()->fine(), 1);  // the slot is free though the handle lives
}

TEST_P(Losses, ExitInMethod) {  // C5, C6
  RemoteManager manager(options_with_slots(1));
  {
    auto trouble = manager.create<Trouble>();
    const auto error = expect_remote_error(RemoteErrorKind::kLost, [&] { trouble->exit_process(7); });
    if (is_process()) {
      EXPECT_NE(std::string(error.what()).find("7"), std::string::npos) << error.what();
    }
    EXPECT_NE(std::string(error.what()).find("last words before exit"), std::string::npos) << error.what();
    expect_remote_error(RemoteErrorKind::kLost, [&] { trouble->fine(); });
  }
  auto trouble = manager.create<Trouble>();
  auto later = trouble.async()->exit_process(0);
  expect_remote_error(RemoteErrorKind::kLost, [&] { later.get(); });
  auto next = trouble.async()->fine();
  expect_remote_error(RemoteErrorKind::kLost, [&] { next.get(); });
  EXPECT_EQ(manager.create<Trouble>()->fine(), 1);
}

TEST_P(Losses, TheSignalThatKilledItIsNamed) {  // P14
  RemoteManager manager(options_with_slots(1));
  for (const int number : {SIGSEGV, SIGABRT}) {
    auto trouble = manager.create<Trouble>();
    const double took = seconds_of([&] {
      const auto error = expect_remote_error(RemoteErrorKind::kLost, [&] { trouble->raise_signal(number); });
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // with handlers of their own and long reports
      (void)error;
#else
      EXPECT_NE(std::string(error.what()).find("last words before a signal"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(fmt::format("was killed by signal {}", number)), std::string::npos)
          << error.what();
#endif
    });
    EXPECT_LT(took, 5);
  }
  EXPECT_EQ(manager.create<Trouble>()->fine(), 1);
}

TEST_P(Losses, OneLossDoesNotFailTheOthers) {  // P11
  RemoteManager manager(options());
  auto objects = manager.create_all<Counter>(3, 4);
  kill(static_cast<pid_t>(objects[1].pid()), SIGKILL);
  auto results = broadcast(objects, &Counter::get);
  EXPECT_EQ(results[0].get(), 4);
  expect_remote_error(RemoteErrorKind::kLost, [&] { results[1].get(); });
  EXPECT_EQ(results[2].get(), 4);
}

TEST_P(Losses, RestartByPolicy) {  // P9
  RemoteManager manager(options());
  auto counter = manager.create<Counter>(Place{.max_restarts = 1}, 5);
  int hooks = 0;
  counter.on_restart([&](Remote<Counter>& again) {
    ++hooks;
    again->set(again->get() + 100);
  });
  EXPECT_EQ(counter->increment(), 6);
  EXPECT_EQ(counter.generation(), 0);
  kill(static_cast<pid_t>(counter.pid()), SIGKILL);
  ASSERT_TRUE(eventually([&] { return counter.lost(); }));
  EXPECT_EQ(counter->get(), 105);  // built with the first arguments, then the hook, then the call
  EXPECT_EQ(counter.generation(), 1);
  EXPECT_EQ(hooks, 1);
  EXPECT_EQ(manager.stats().restarts, 1u);
  kill(static_cast<pid_t>(counter.pid()), SIGKILL);
  ASSERT_TRUE(eventually([&] { return counter.lost(); }));
  expect_remote_error(RemoteErrorKind::kLost, [&] { counter->get(); });  // no restarts left
}

TEST_P(Losses, StoppedLearnerLosesNobody) {  // 4: this process stands still for a while, then goes on
  RemoteManager manager(options());
  auto counter = manager.create<Counter>(5);
  EXPECT_EQ(counter->get(), 5);
  const pid_t learner = getpid();
  const pid_t waker = fork();
  if (waker == 0) {
    kill(learner, SIGSTOP);
    usleep(500000);
    kill(learner, SIGCONT);
    _exit(0);
  }
  waitpid(waker, nullptr, 0);
  EXPECT_EQ(counter->get(), 5);
  internal::stop_process(static_cast<pid_t>(counter.pid()));  // and a stopped worker is late, not lost
  auto late = counter.async()->increment();
  EXPECT_FALSE(late.wait_for(300ms));
  kill(static_cast<pid_t>(counter.pid()), SIGCONT);
  EXPECT_EQ(late.get(10s), 6);
}

TEST_P(Processes, WorkersDieWithTheirLearner) {  // P9: however it ended
  int report[2];
  ASSERT_EQ(pipe(report), 0);
  const pid_t learner = fork();
  if (learner == 0) {  // a learner of its own: makes an object, tells its pid, is killed
    RemoteManager manager("process");
    auto counter = manager.create<Counter>();
    const pid_t pid = static_cast<pid_t>(counter->process());
    if (write(report[1], &pid, sizeof(pid)) != sizeof(pid)) _exit(1);
    for (;;) pause();
  }
  pid_t worker = 0;
  ASSERT_EQ(read(report[0], &worker, sizeof(worker)), static_cast<ssize_t>(sizeof(worker)));
  kill(learner, SIGKILL);
  waitpid(learner, nullptr, 0);
  const auto is_gone = [&] {
    std::ifstream file("/proc/" + std::to_string(worker) + "/stat");
    std::string pid, name, state;
    file >> pid >> name >> state;
    return !file || state == "Z";  // whoever adopted it may be slow to bury it
  };
  EXPECT_TRUE(eventually(is_gone, 1000ms));
  close(report[0]);
  close(report[1]);
}

TEST_P(Processes, InterruptIsNotForWorkers) {  // P14: Ctrl-C reaches the learner alone
  RemoteManager manager(options());
  auto counter = manager.create<Counter>(2);
  EXPECT_NE(getpgid(static_cast<pid_t>(counter.pid())), getpgid(0));
  kill(static_cast<pid_t>(counter.pid()), SIGINT);
  EXPECT_EQ(counter->get(), 2);
}

TEST_P(Processes, WorkerOutput) {  // P14: reaches the learner's log with the object's name
  const std::string path = Gate().path();
  log_to_file(path);
  RemoteManager manager(options());
  auto trouble = manager.create<Trouble>(Place{.name = "talker"});
  trouble->print("hear me");
  const auto heard = [&] {
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
      if (line.find("hear me") != std::string::npos) return line.find("talker") != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(eventually(heard));
  stop_log_file();
  unlink(path.c_str());
}

TEST_P(Processes, SparesAreUsed) {
  Options o = options();
  o.spares = 2;
  RemoteManager manager(o);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(manager.create<Counter>(i)->get(), i);
}

}  // namespace parl::conformance
