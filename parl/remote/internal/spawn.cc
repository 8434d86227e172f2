#include "parl/remote/internal/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "parl/core/check.h"
#include "parl/core/process.h"

namespace parl::internal {
namespace {

// dup2() in the child targets 0..3, so the sources must lie above.
UniqueFd lift(UniqueFd fd) {
  if (fd.get() > kWorkerSocket) return fd;
  UniqueFd lifted(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kWorkerSocket + 1));
  if (!lifted) throw Error(resource_message("cannot start a worker", errno));
  return lifted;
}

class SpawnPlan {
 public:
  SpawnPlan(int socket, int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, 1);
    posix_spawn_file_actions_adddup2(&actions_, output, 2);
    posix_spawn_file_actions_adddup2(&actions_, socket, kWorkerSocket);
#if __GLIBC_PREREQ(2, 34)  // what the user's code left inheritable would outlive the learner in its workers
    posix_spawn_file_actions_addclosefrom_np(&actions_, kWorkerSocket + 1);
#endif
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    for (int s : {SIGTERM, SIGPIPE, SIGCHLD, SIGHUP, SIGQUIT}) sigaddset(&defaults, s);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &defaults);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  int run(pid_t& pid, const std::string& program, std::vector<std::string> argv, std::vector<std::string> env) {
    return ::posix_spawn(&pid, program.c_str(), &actions_, &attributes_, exec_pointers(argv).data(),
                         exec_pointers(env).data());
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::string program_name() {
  std::error_code ignored;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return ignored ? "parl-worker" : path.string();
}

}  // namespace

std::string resource_message(const std::string& what, int error, int per_worker) {
  if (error != EMFILE && error != ENFILE) {
    if (error == EAGAIN || error == ENOMEM)
      return fmt::format("{}: {} (the limit of processes or memory is reached; see `ulimit -u` and free memory)", what,
                         ::strerror(error));
    return fmt::format("{}: {}", what, ::strerror(error));
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format(
      "{}: the limit of {} open descriptors is reached (hard limit {}); each worker needs {}. Raise it with `ulimit "
      "-n`, "
      "or use fewer workers",
      what, limit.rlim_cur, limit.rlim_max, per_worker);
}

OwnArguments::OwnArguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  text.assign((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (size_t at = 0; at < text.size(); at += std::strlen(&text[at]) + 1) args.push_back(&text[at]);
}

size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, rlim_t{1} << 20);
  if (limit.rlim_cur < wanted) {
    const rlimit raised{wanted, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) return wanted;
  }
  return limit.rlim_cur;
}

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // CLOEXEC by itself
}

ChildProcess spawn_self(const SpawnOptions& options) {
  const char* what = "cannot start a worker";
  int sockets[2], pipes[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) throw Error(resource_message(what, errno));
  ChildProcess child;
  child.socket.reset(sockets[0]);
  UniqueFd child_socket(sockets[1]);
  if (::pipe2(pipes, O_CLOEXEC) != 0) throw Error(resource_message(what, errno));
  child.output.reset(pipes[0]);
  UniqueFd child_output(pipes[1]);
  child_socket = lift(std::move(child_socket));
  child_output = lift(std::move(child_output));
  // Only our ends: the child's own stay blocking.
  ::fcntl(child.socket.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(child.output.get(), F_SETFL, O_NONBLOCK);
  // Checked before there is a child: with no descriptor left for its pidfd nobody could await its end.
  UniqueFd reserve(::fcntl(child_socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!reserve) throw Error(resource_message(what, errno));

  std::vector<std::string> argv{program_name()};
  argv.insert(argv.end(), options.arguments.begin(), options.arguments.end());
  const int error = SpawnPlan(child_socket.get(), child_output.get())
                        .run(child.pid, options.program, std::move(argv), environment_with(options.environment));
  if (error != 0) throw Error(resource_message(fmt::format("{} ({})", what, options.program), error));
  child_socket.reset();
  child_output.reset();
  reserve.reset();
  child.pidfd = open_pidfd(child.pid);
  if (!child.pidfd) {
    const int open_error = errno;
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    throw Error(resource_message("cannot watch a worker", open_error));
  }
  return child;
}

bool reap(const ChildProcess& child, ExitStatus& status) {
  siginfo_t info{};
  int result;
  do {
    result = ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(child.pidfd.get()), &info, WEXITED | WNOHANG);
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    status = {false, 0, "ended (its exit status was collected by other code of this program)"};
    return true;
  }
  if (info.si_pid == 0) return false;
  if (info.si_code == CLD_EXITED) {
    status = {true, info.si_status, fmt::format("exited with status {}", info.si_status)};
  } else {
    status = {true, -info.si_status,
              fmt::format("was killed by signal {} ({}){}", info.si_status, ::strsignal(info.si_status),
                          info.si_code == CLD_DUMPED ? ", core dumped" : "")};
  }
  return true;
}

void send_signal(const ChildProcess& child, int signal) {
  if (child.pidfd) ::syscall(SYS_pidfd_send_signal, child.pidfd.get(), signal, nullptr, 0);
}

}  // namespace parl::internal
