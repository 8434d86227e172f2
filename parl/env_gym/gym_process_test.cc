// What becomes of the Python process: its errors, its death, its silence, its end.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <tuple>

#include "parl/core/clock.h"
#include "parl/core/error_of.h"
#include "parl/core/interrupt.h"
#include "parl/env_gym/gym_test_util.h"

namespace parl {
namespace {

using testing::GymTest;
using ::testing::HasSubstr;
using testing::make_gym;
using testing::test_python;

std::unique_ptr<GymEnv> failing(const std::string& fault, EnvArgs args = {}) {
  args["fault"] = fault;
  return make_gym("gym:ParlFailing-v0", args);
}

float observation[1];
std::span<std::byte> place() { return std::as_writable_bytes(std::span(observation)); }

// A zombie counts as gone: its parent here may be a process that reaps nobody.
bool is_gone(int pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(in, text)) return true;
  return text.substr(text.rfind(')') + 2, 1) == "Z";
}
bool is_gone_within(int pid, double seconds) {
  const auto start = Clock::now();
  while (!is_gone(pid)) {
    if (seconds_since(start) > seconds) return false;
    ::usleep(1000);
  }
  return true;
}

TEST_F(GymTest, AnExceptionComesWithItsTracebackAndResetGoesOn) {
  const auto env = failing("raise");
  const int pid = env->pid();
  env->reset(1, place());
  env->step(Action::discrete(0), place());
  const std::string text = error_of([&] { env->step(Action::discrete(0), place()); });
  EXPECT_THAT(text, HasSubstr("gym:ParlFailing-v0: step() failed in Python"));
  EXPECT_THAT(text, HasSubstr("parl_gym_test_envs.py"));
  EXPECT_THAT(text, HasSubstr("ValueError: the lamp broke"));
  EXPECT_THROW(env->step(Action::discrete(0), place()), Error) << "a broken episode goes on";
  env->reset({}, place());
  for (int i = 0; i < 5; ++i) env->step(Action::discrete(0), place());
  EXPECT_EQ(env->pid(), pid);
}

TEST_F(GymTest, WhatEndsAPythonProgramIsAnErrorOfTheStep) {
  struct Case {
    const char *fault, *text;
  };
  for (const Case& c : {Case{"sysexit", "SystemExit: 5"}, Case{"interrupt", "KeyboardInterrupt"}}) {
    const auto env = failing(c.fault);
    const int pid = env->pid();
    env->reset(1, place());
    env->step(Action::discrete(0), place());
    const std::string text = error_of([&] { env->step(Action::discrete(0), place()); });
    EXPECT_THAT(text, HasSubstr("parl_gym_test_envs.py"));
    EXPECT_THAT(text, HasSubstr(c.text));
    env->reset({}, place());
    env->step(Action::discrete(0), place());
    EXPECT_EQ(env->pid(), pid);
  }
}

TEST_F(GymTest, ADeathFailsTheStepAtOnceAndResetStartsAgain) {
  struct Case {
    const char *fault, *text;
  };
  for (const Case& c : {Case{"kill", "was killed by signal 9"}, Case{"exit", "exited with status 7"}}) {
    const auto env = failing(c.fault);
    const int pid = env->pid();
    env->reset(1, place());
    env->step(Action::discrete(0), place());
    const auto start = Clock::now();
    EXPECT_THAT(error_of([&] { env->step(Action::discrete(0), place()); }), HasSubstr(c.text));
    EXPECT_LT(seconds_since(start), 1.0);
    EXPECT_THROW(env->step(Action::discrete(0), place()), Error);
    env->reset({}, place());
    const float first = observation[0];
    EXPECT_NE(env->pid(), pid);
    env->step(Action::discrete(0), place());
    EXPECT_EQ(observation[0], 1.0f);
    // What the new process draws follows from the last seed.
    const auto twin = failing(c.fault);
    twin->reset(1, place());
    ::kill(twin->pid(), SIGKILL);
    EXPECT_THROW(twin->step(Action::discrete(0), place()), Error);
    twin->reset({}, place());
    EXPECT_EQ(observation[0], first);
  }
}

TEST_F(GymTest, AFailureInABlockIsItsOwnAndADeathIsAll) {
  GymHosts hosts;
  const auto options = [](const std::string& fault) {
    return gym_options({.id = "gym:ParlFailing-v0",
                        .args = {{"fault", fault}, {"import", "parl_gym_test_envs"}, {"python", test_python()}}});
  };
  const auto step_both = [](Env& a, Env& b) {
    const Action action = Action::discrete(0);
    a.begin_step(action);
    b.begin_step(action);
    return std::pair{error_of([&] { a.step(action, place()); }), error_of([&] { b.step(action, place()); })};
  };
  const auto first = hosts.make(options("raise"), 2), second = hosts.make(options("raise"), 2);
  for (Env* env : {first.get(), second.get()}) env->reset(1, place());
  second->step(Action::discrete(0), place());
  auto [a, b] = step_both(*first, *second);
  EXPECT_EQ(a, "nothing thrown");
  EXPECT_THAT(b, HasSubstr("the lamp broke"));
  second->reset({}, place());
  std::tie(a, b) = step_both(*first, *second);
  EXPECT_THAT(a, HasSubstr("the lamp broke"));
  EXPECT_EQ(b, "nothing thrown");

  const auto third = hosts.make(options("kill"), 2), fourth = hosts.make(options("kill"), 2);
  for (Env* env : {third.get(), fourth.get()}) env->reset(1, place());
  third->step(Action::discrete(0), place());
  std::tie(a, b) = step_both(*third, *fourth);
  EXPECT_THAT(a, HasSubstr("was killed by signal 9"));
  EXPECT_THAT(b, HasSubstr("call reset()"));
  fourth->reset({}, place());
  EXPECT_THROW(third->step(Action::discrete(0), place()), Error);
  third->reset({}, place());
  std::tie(a, b) = step_both(*third, *fourth);
  EXPECT_EQ(a + b, "nothing thrownnothing thrown");
  EXPECT_EQ(dynamic_cast<GymEnv&>(*third).pid(), dynamic_cast<GymEnv&>(*fourth).pid());
}

TEST_F(GymTest, SilenceEndsAtTheTimeout) {
  const auto env = failing("hang", {{"timeout", "0.6"}});
  env->reset(1, place());
  env->step(Action::discrete(0), place());
  const int pid = env->pid();
  const auto start = Clock::now();
  EXPECT_THAT(error_of([&] { env->step(Action::discrete(0), place()); }), HasSubstr("no answer to step() for 0.6 s"));
  EXPECT_LT(seconds_since(start), 5.0);
  EXPECT_TRUE(is_gone(pid));
  EXPECT_NO_THROW(env->reset({}, place()));
}

TEST_F(GymTest, AStartThatHangsHasATimeoutOfItsOwn) {
  const std::string text = error_of([] { failing("hang_start", {{"start_timeout", "0.7"}}); });
  EXPECT_THAT(text, HasSubstr("no answer to the start for 0.7 s"));
  EXPECT_THAT(text, HasSubstr("start_timeout=SECONDS"));
}

TEST_F(GymTest, AStartIsInterrupted) {
  const std::atomic<bool> stop{true};
  set_interrupt_flag(&stop);
  const auto start = Clock::now();
  EXPECT_THROW(failing("hang_start"), Interrupted);
  set_interrupt_flag(nullptr);
  EXPECT_LT(seconds_since(start), 20.0) << "that is the timeout's 60 s";
}

TEST_F(GymTest, LeavesNoProcessAndNoDescriptor) {
  const auto descriptors = [] {
    std::vector<int> out;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const int fd = std::stoi(entry.path().filename());
      if (::fcntl(fd, F_GETFD) >= 0) out.push_back(fd);
    }
    return out;
  };
  const auto before = descriptors();
  int pid = 0;
  {
    const auto env = make_gym("gym:CartPole-v1");
    pid = env->pid();
    for (const int fd : descriptors()) {
      const bool is_new = std::find(before.begin(), before.end(), fd) == before.end();
      if (is_new) {
        EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC) << fd;
      }
    }
    EXPECT_FALSE(is_gone(pid));
  }
  EXPECT_NE(::kill(pid, 0), 0) << "it is there, or a zombie";
  EXPECT_EQ(descriptors().size(), before.size());
}

// The program is killed while Python is busy in a step: nobody reads the socket, and yet the process ends.
TEST_F(GymTest, DiesWithTheProgram) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int program = ::fork();
  if (program == 0) {
    const auto env = failing("hang");
    env->reset(1, place());
    env->step(Action::discrete(0), place());
    env->begin_step(Action::discrete(0));
    const int pid = env->pid();
    if (::write(ends[1], &pid, sizeof(pid)) < 0) ::_exit(1);
    for (;;) ::pause();
  }
  int pid = 0;
  ASSERT_EQ(::read(ends[0], &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  EXPECT_FALSE(is_gone(pid));
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  EXPECT_TRUE(is_gone_within(pid, 5));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(GymTest, ThePlaceWhereItWasStartedDoesNotMatter) {
  std::unique_ptr<GymEnv> env;
  std::thread([&] { env = make_gym("gym:CartPole-v1"); }).join();  // PR_SET_PDEATHSIG would kill it here
  std::vector<std::byte> obs(env->spec().observation.bytes());
  env->reset(1, obs);
  EXPECT_EQ(env->step(Action::discrete(0), obs).reward, 1.0f);
}

TEST_F(GymTest, WhatCannotStartSaysWhy) {
  EXPECT_THAT(error_of([] { failing("start"); }), HasSubstr("ValueError: the lamp is missing"));
  EXPECT_THAT(error_of([] { failing("exit_start"); }), HasSubstr("SystemExit: no lamp today"));
  EXPECT_THAT(error_of([] { failing("text"); }), HasSubstr("Text(1, 5"));
  for (const char* fault : {"empty", "empty_action"}) {
    const std::string text = error_of([&] { failing(fault); });
    EXPECT_THAT(text, HasSubstr("holds no number at all"));
    EXPECT_THAT(text, ::testing::Not(HasSubstr("Traceback")));
  }
  EXPECT_THAT(error_of([] { make_gym("gym:CartPoll-v1"); }), HasSubstr("CartPole"));
  EXPECT_THAT(error_of([] { make_gym("gym:CartPole-v1", {{"colour", "red"}}); }), HasSubstr("colour"));
  EXPECT_THAT(error_of([] {
                make_gym("gym:CartPole-v1", {{"import", "no_such_module"}});
              }),
              HasSubstr("No module named 'no_such_module'\nThe Python that lacks it is "));
  const std::string text = error_of([] { failing("dependency"); });
  EXPECT_THAT(text, HasSubstr("Python:\nthe lamp is not installed, run `pip install \"lamp[bulb]\"`\n"));
  EXPECT_THAT(text, HasSubstr(" -m pip install ..."));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("Traceback")));
}

TEST(GymStart, WithoutPythonOrGymnasiumTheErrorNamesTheCommand) {
  EXPECT_THAT(error_of([] {
                make_gym("gym:CartPole-v1", {{"python", "/no/such/python"}});
              }),
              HasSubstr("pip install gymnasium"));
  // An interpreter that sees no packages.
  std::string folder = (std::filesystem::temp_directory_path() / "parl_gym_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string bare = folder + "/python";
  std::ofstream(bare) << "#!/bin/sh\nexec python3 -I -S \"$@\"\n";
  std::filesystem::permissions(bare, std::filesystem::perms::owner_all);
  if (std::system("python3 -c '' >/dev/null 2>&1") == 0) {
    const std::string text = error_of([&] { make_gym("gym:CartPole-v1", {{"python", bare}}); });
    EXPECT_THAT(text, HasSubstr("cannot import gymnasium"));
    EXPECT_THAT(text, HasSubstr("-m pip install gymnasium"));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace parl
