#include "parl/submit/process_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>

#include "parl/core/check.h"
#include "parl/core/process.h"

namespace parl::submit {
namespace {

using std::chrono::milliseconds;

void close_all(std::initializer_list<int> descriptors) {
  for (const int fd : descriptors) {
    if (fd >= 0) ::close(fd);
  }
}

struct Pipes {
  int input[2] = {-1, -1};   // a socket pair: writing to a program that has gone raises no SIGPIPE
  int output[2] = {-1, -1};  // [0] is ours
  int error[2] = {-1, -1};   // exec's errno
};

// In the child, between fork and exec: system calls alone. Does not return.
[[noreturn]] void become(const Pipes& pipes, bool is_shown, pid_t parent, char* const* argv, char* const* env) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGCHLD}) ::signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(pipes.input[1], STDIN_FILENO);
  if (!is_shown) {
    ::dup2(pipes.output[1], STDOUT_FILENO);
    ::dup2(pipes.output[1], STDERR_FILENO);
  }
  ::execvpe(argv[0], argv, env);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(pipes.error[1], &error, sizeof error);
  ::_exit(127);
}

}  // namespace

ProcessLoop::~ProcessLoop() {
  for (auto& [id, process] : processes_) {
    ::kill(-process.pid, SIGKILL);
    close_all({process.input, process.output});
    ::waitpid(process.pid, nullptr, 0);
  }
}

ProcessLoop::Id ProcessLoop::start(const Command& command, OnLine on_line, OnExit on_exit) {
  PARL_CHECK(!command.argv.empty(), "a command needs a program");
  Pipes pipes;
  const auto fail = [&](int error) {
    close_all({pipes.input[0], pipes.input[1], pipes.output[0], pipes.output[1], pipes.error[0], pipes.error[1]});
    raise("'{}' cannot be started: {}", command.argv[0], ::strerror(error));
  };
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipes.input) != 0) fail(errno);
  if (::pipe2(pipes.output, O_CLOEXEC) != 0 || ::pipe2(pipes.error, O_CLOEXEC) != 0) fail(errno);
  std::vector<std::string> argv = command.argv, env = environment_with(command.environment);
  const auto argv_pointers = exec_pointers(argv), env_pointers = exec_pointers(env);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) fail(errno);
  if (pid == 0) become(pipes, command.is_shown, parent, argv_pointers.data(), env_pointers.data());
  ::setpgid(pid, pid);  // whichever of both comes first
  close_all({pipes.input[1], pipes.output[1], pipes.error[1]});
  pipes.input[1] = pipes.output[1] = pipes.error[1] = -1;
  int error = 0;
  ssize_t got;
  do {
    got = ::read(pipes.error[0], &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    fail(error);
  }
  ::close(pipes.error[0]);
  ::fcntl(pipes.input[0], F_SETFL, O_NONBLOCK);
  ::fcntl(pipes.output[0], F_SETFL, O_NONBLOCK);
  const Id id = next_++;
  Process& process = processes_[id];
  process.pid = pid;
  process.input = pipes.input[0];
  process.output = pipes.output[0];
  process.keeps_input_open = command.keeps_input_open;
  process.pending = command.input;
  process.on_line = std::move(on_line);
  process.on_exit = std::move(on_exit);
  write_input(process);
  return id;
}

void ProcessLoop::write_input(Process& process) {
  while (process.input >= 0 && !process.pending.empty()) {
    const ssize_t sent = ::send(process.input, process.pending.data(), process.pending.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) process.pending.clear();  // it does not read: its own affair
    if (sent > 0) process.pending.erase(0, static_cast<size_t>(sent));
  }
  if (process.input >= 0 && !process.keeps_input_open) {
    ::close(process.input);
    process.input = -1;
  }
}

void ProcessLoop::close_input(Id id) {
  const auto it = processes_.find(id);
  if (it == processes_.end()) return;
  it->second.keeps_input_open = false;
  write_input(it->second);
}

void ProcessLoop::signal(Id id, int signal) {
  const auto it = processes_.find(id);
  if (it != processes_.end()) ::kill(-it->second.pid, signal);
}

void ProcessLoop::deliver(Id id, std::string_view line) {
  const auto it = processes_.find(id);
  if (it == processes_.end() || !it->second.on_line) return;
  const OnLine on_line = it->second.on_line;  // it may end the loop's entry
  on_line(line);
}

void ProcessLoop::read_output(Id id) {
  char buffer[16384];
  for (;;) {
    const auto it = processes_.find(id);
    if (it == processes_.end() || it->second.output < 0) return;
    Process& process = it->second;
    const ssize_t got = ::read(process.output, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;
    if (got == 0) {
      ::close(process.output);
      process.output = -1;
    }
    process.partial.append(buffer, static_cast<size_t>(got));
    std::vector<std::string> lines;
    size_t begin = 0;
    for (size_t end; (end = process.partial.find('\n', begin)) != std::string::npos; begin = end + 1)
      lines.push_back(process.partial.substr(begin, end - begin));
    process.partial.erase(0, begin);
    if (!process.partial.empty() && (got == 0 || process.partial.size() > kMaxLine)) {
      lines.push_back(std::move(process.partial));
      process.partial.clear();
    }
    for (std::string& line : lines) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      deliver(id, line);
    }
  }
}

void ProcessLoop::look_after(Id id) {
  auto it = processes_.find(id);
  if (it == processes_.end()) return;
  write_input(it->second);
  const pid_t pid = it->second.pid;
  siginfo_t info{};  // collected below: until then its number, and its group's, is nobody else's
  const bool has_ended =
      ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
  read_output(id);
  if (!has_ended) return;
  ::kill(-pid, SIGKILL);  // what it left behind in its group
  int status = 0;
  ::waitpid(pid, &status, 0);
  it = processes_.find(id);
  Process process = std::move(it->second);
  if (!process.partial.empty() && process.on_line) process.on_line(process.partial);
  processes_.erase(it);
  close_all({process.input, process.output});
  if (process.on_exit) process.on_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void ProcessLoop::run_once(milliseconds timeout) {
  constexpr milliseconds kLongest(50);  // an end that no pipe tells of
  std::vector<pollfd> polled;
  std::vector<Id> ids;
  for (const auto& [id, process] : processes_) {
    ids.push_back(id);
    if (process.output >= 0) polled.push_back({process.output, POLLIN, 0});
    if (process.input >= 0 && !process.pending.empty()) polled.push_back({process.input, POLLOUT, 0});
  }
  ::poll(polled.data(), polled.size(), static_cast<int>(std::min(timeout, kLongest).count()));
  for (const Id id : ids) look_after(id);
}

Outcome run_command(const Command& command, milliseconds timeout) {
  Outcome outcome;
  std::optional<int> code;
  ProcessLoop loop;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  loop.start(
      command, [&](std::string_view line) { outcome.output.append(line).append("\n"); }, [&](int c) { code = c; });
  while (!code) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    PARL_CHECK(left.count() > 0, "'{}' has not ended within {} s", command.argv[0], timeout.count() / 1000);
    loop.run_once(left);
  }
  outcome.code = *code;
  return outcome;
}

bool has_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access(((folder.empty() ? "." : folder) + "/" + name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace parl::submit
