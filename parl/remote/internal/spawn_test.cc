#include "parl/remote/internal/spawn.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "parl/core/check.h"
#include "parl/remote/internal/log_pump.h"

namespace parl::internal {
namespace {

SpawnOptions shell(const std::string& script) {
  SpawnOptions options;
  options.program = "/bin/sh";
  options.arguments = {"-c", script};
  return options;
}

ExitStatus wait_for_end(const ChildProcess& child) {
  pollfd poll_fd{child.pidfd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&poll_fd, 1, 10000), 1) << "the child did not end";
  ExitStatus status;
  EXPECT_TRUE(reap(child, status));
  return status;
}

std::string output_of(const ChildProcess& child) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(child.output.get(), buffer, sizeof buffer);
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    if (got == 0) return text;
    if (got < 0 && errno == EAGAIN) {
      pollfd poll_fd{child.output.get(), POLLIN, 0};
      if (::poll(&poll_fd, 1, 10000) != 1) return text + "<no end>";
    }
  }
}

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(Spawn, ExitCodesAndSignalsAreToldApart) {
  const ChildProcess three = spawn_self(shell("exit 3"));
  ExitStatus status = wait_for_end(three);
  EXPECT_TRUE(status.known);
  EXPECT_EQ(status.code, 3);
  EXPECT_EQ(status.text, "exited with status 3");

  const ChildProcess killed = spawn_self(shell("sleep 100"));
  EXPECT_FALSE(reap(killed, status)) << "it still runs";
  send_signal(killed, SIGKILL);
  status = wait_for_end(killed);
  EXPECT_EQ(status.code, -SIGKILL);
  EXPECT_EQ(status.text, "was killed by signal 9 (Killed)");
  send_signal(killed, SIGKILL);  // gone: no error
}

TEST(Spawn, TheChildSeesItsEnvironmentAndNoStrayDescriptors) {
  ::setenv("PARL_SPAWN_TEST", "old", 1);
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd stray(::fcntl(null.get(), F_DUPFD, 200));  // inheritable, as careless code leaves them
  auto options =
      shell(fmt::format("echo $PARL_SPAWN_TEST $CUDA_VISIBLE_DEVICES; for i in 0 1 2 3 {}; do "
                        "[ -e /proc/$$/fd/$i ] && echo $i; done; echo err >&2",
                        stray.get()));
  options.environment = {{"PARL_SPAWN_TEST", "new"}, {"CUDA_VISIBLE_DEVICES", "2,3"}};
  const ChildProcess child = spawn_self(options);
  EXPECT_EQ(output_of(child), "new 2,3\n0\n1\n2\n3\nerr\n");
  EXPECT_EQ(wait_for_end(child).code, 0);
  EXPECT_STREQ(::getenv("PARL_SPAWN_TEST"), "old");
  ::unsetenv("PARL_SPAWN_TEST");
}

TEST(Spawn, TheSocketConnectsBothSides) {
  const ChildProcess child = spawn_self(shell("read line <&3; echo \"got $line\" >&3"));
  ASSERT_EQ(::write(child.socket.get(), "hello\n", 6), 6);
  pollfd poll_fd{child.socket.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&poll_fd, 1, 10000), 1);
  char buffer[64] = {};
  EXPECT_EQ(::read(child.socket.get(), buffer, sizeof buffer), 10);
  EXPECT_STREQ(buffer, "got hello\n");
  wait_for_end(child);
  EXPECT_EQ(::read(child.socket.get(), buffer, sizeof buffer), 0) << "its end is seen as end of file";
}

TEST(Spawn, OwnProcessGroupAndDescriptorsClosedOnExec) {
  const ChildProcess child = spawn_self(shell("sleep 100"));
  EXPECT_EQ(::getpgid(child.pid), child.pid);
  for (int fd : {child.pidfd.get(), child.socket.get(), child.output.get()})
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC) << fd;
  ::kill(-child.pid, SIGKILL);
  wait_for_end(child);
}

TEST(Spawn, UsersOwnChildrenAreLeftAlone) {
  const pid_t own = ::fork();
  if (own == 0) ::_exit(7);
  const ChildProcess child = spawn_self(shell("exit 0"));
  wait_for_end(child);
  int status = 0;
  EXPECT_EQ(::waitpid(own, &status, 0), own);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Spawn, AChildSomebodyElseCollectedHasAnUnknownStatus) {
  const ChildProcess child = spawn_self(shell("exit 0"));
  ASSERT_EQ(::waitpid(child.pid, nullptr, 0), child.pid);
  ExitStatus status;
  EXPECT_TRUE(reap(child, status));
  EXPECT_FALSE(status.known);
}

TEST(Spawn, AProgramThatIsNotThereIsNamed) {
  SpawnOptions options;
  options.program = "/no/such/program";
  try {
    spawn_self(options);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("/no/such/program"));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("No such file"));
  }
}

TEST(Spawn, RunningOutOfDescriptorsNamesLimitAndNeedAndLeaksNothing) {
  raise_descriptor_limit();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const size_t open_before = open_descriptors();
  std::vector<UniqueFd> fill;
  for (rlim_t spare = 0; spare < 6; ++spare) {  // fails at another place each time
    const rlimit low{open_before + spare, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &low);
    fill.clear();
    std::string message;
    try {
      const ChildProcess child = spawn_self(shell("exit 0"));
      ::setrlimit(RLIMIT_NOFILE, &before);
      wait_for_end(child);
      continue;
    } catch (const Error& e) {
      message = e.what();
    }
    ::setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_THAT(message, ::testing::HasSubstr(fmt::format("limit of {} open descriptors", low.rlim_cur)));
    EXPECT_THAT(message, ::testing::HasSubstr("each worker needs 3"));
    EXPECT_THAT(message, ::testing::HasSubstr("ulimit -n"));
  }
  EXPECT_EQ(open_descriptors(), open_before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
}

TEST(Spawn, TheSoftLimitIsRaisedToTheHardOne) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit low{256, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &low);
  const size_t now = raise_descriptor_limit();
  EXPECT_EQ(now, std::min<rlim_t>(before.rlim_max, 1 << 20));
  rlimit after{};
  ::getrlimit(RLIMIT_NOFILE, &after);
  EXPECT_EQ(after.rlim_cur, now);
}

struct Pumped {
  std::vector<std::string> lines;
  LogPump pump{"[w1] ", "", [this](const std::string& line) { lines.push_back(line); }};
};

TEST(LogPump, CutsLinesWhereverTheBytesBreak) {
  Pumped p;
  p.pump.feed("one\ntw");
  p.pump.feed("o\r\n\nrest");
  EXPECT_EQ(p.lines, (std::vector<std::string>{"[w1] one", "[w1] two", "[w1] "}));
  p.pump.finish();
  EXPECT_EQ(p.lines.back(), "[w1] rest");
  EXPECT_EQ(p.pump.last_lines(), "one\ntwo\n\nrest\n");
}

TEST(LogPump, KeepsTheLastLinesAndCutsEndlessOnes) {
  Pumped p;
  for (int i = 0; i < 100; ++i) p.pump.feed(fmt::format("line {}\n", i));
  EXPECT_EQ(p.pump.last_lines().substr(0, 8), fmt::format("line {}\n", 100 - LogPump::kKeptLines));
  p.lines.clear();
  p.pump.feed(std::string(3 * LogPump::kMaxLine + 5, 'x'));
  EXPECT_EQ(p.lines.size(), 3u);
  p.pump.feed("\n");
  EXPECT_EQ(p.lines.back(), "[w1] xxxxx");
}

TEST(LogPump, FilesRotateAndAreBounded) {
  const auto directory = std::filesystem::temp_directory_path() / fmt::format("parl-log-test-{}", ::getpid());
  std::filesystem::create_directories(directory);
  const std::string file = directory / "worker.log";
  LogPump pump("", file, nullptr);
  const std::string megabyte(1 << 20, 'a');
  for (int i = 0; i < 20; ++i) pump.feed(megabyte);
  EXPECT_LE(std::filesystem::file_size(file), LogPump::kMaxFile);
  EXPECT_LE(std::filesystem::file_size(file + ".1"), LogPump::kMaxFile);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++files;
  EXPECT_EQ(files, 2u);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace parl::internal
