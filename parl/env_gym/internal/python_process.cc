#include "parl/env_gym/internal/python_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "parl/core/check.h"
#include "parl/core/clock.h"
#include "parl/core/interrupt.h"
#include "parl/core/log.h"
#include "parl/core/process.h"

namespace parl::internal {
namespace {

constexpr int kSocket = 3, kMemory = 4, kLifeline = 5;  // in the child; gym_worker.py has the same
constexpr int kAbove = 10;                              // ours lie above, so that placing one overwrites none
constexpr double kPatience = 0.5;                       // seconds between two looks at a silent process
constexpr double kFarewell = 2;                         // seconds to end by itself

// Closes what is still held.
struct Descriptors {
  ~Descriptors() {
    for (int fd : held) ::close(fd);
  }
  // A descriptor of its own above kAbove; `fd` is closed.
  int keep(int fd, const char* what) {
    const int above = fd < 0 ? fd : ::fcntl(fd, F_DUPFD_CLOEXEC, kAbove);
    const int error = errno;
    if (fd >= 0) ::close(fd);
    PARL_CHECK(above >= 0, "cannot make {} for a Python process: {}", what, std::strerror(error));
    held.push_back(above);
    return above;
  }
  std::vector<int> held;
};

// Numeric libraries would start a thread a core in every process, and pygame would look for loudspeakers.
std::vector<std::string> environment() {
  std::vector<std::pair<std::string, std::string>> changes;
  if (!std::getenv("SDL_AUDIODRIVER")) changes.emplace_back("SDL_AUDIODRIVER", "dummy");
  for (const char* name :
       {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYGAME_HIDE_SUPPORT_PROMPT"}) {
    if (!std::getenv(name)) changes.emplace_back(name, "1");
  }
  return environment_with(changes);
}

// What the child's table of descriptors and its signals are to be.
class SpawnPlan {
 public:
  SpawnPlan(int socket, int memory, int lifeline) {
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawn_file_actions_addopen(&files_, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files_, 2, 1);
    ::posix_spawn_file_actions_adddup2(&files_, socket, kSocket);
    ::posix_spawn_file_actions_adddup2(&files_, memory, kMemory);
    ::posix_spawn_file_actions_adddup2(&files_, lifeline, kLifeline);
    sigset_t blocked, normal;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);  // Ctrl-C is the program's: it ends its processes itself
    sigemptyset(&normal);
    for (int s : {SIGINT, SIGTERM, SIGPIPE, SIGIO, SIGCHLD}) sigaddset(&normal, s);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &blocked);
    ::posix_spawnattr_setsigdefault(&attributes_, &normal);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  // 0, or an errno.
  int spawn(int& pid, const std::string& python, const std::string& script) {
    std::vector<std::string> arguments = {python, "-u", "-c", script}, variables = environment();
    return ::posix_spawnp(&pid, python.c_str(), &files_, &attributes_, exec_pointers(arguments).data(),
                          exec_pointers(variables).data());
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

std::string end_of(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace

PythonProcess::PythonProcess(const std::string& python, const std::string& script, std::string who)
    : who_(std::move(who)) {
  int ends[2] = {-1, -1}, pipe_ends[2] = {-1, -1};
  Descriptors descriptors;
  PARL_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "{}: no socket: {}", who_,
             std::strerror(errno));
  const int ours = descriptors.keep(ends[0], "a socket"), theirs = descriptors.keep(ends[1], "a socket");
  PARL_CHECK(::pipe2(pipe_ends, O_CLOEXEC) == 0, "{}: no pipe: {}", who_, std::strerror(errno));
  const int watched = descriptors.keep(pipe_ends[0], "a pipe"), lifeline = descriptors.keep(pipe_ends[1], "a pipe");
  const int memory = descriptors.keep(::memfd_create("parl_gym", MFD_CLOEXEC), "shared memory");

  SpawnPlan plan(theirs, memory, watched);
  const int error = plan.spawn(pid_, python, script);
  PARL_CHECK(error == 0,
             "{}: cannot start the Python interpreter '{}': {}. Install Python and gymnasium (python3 -m pip install "
             "gymnasium), or name an interpreter: --env-args python=PATH, or PARL_PYTHON",
             who_, python, std::strerror(error));
  // When the last holder of the pipe's other end is gone, the kernel sends the child SIGIO, which ends it even in the
  // middle of a step. PR_SET_PDEATHSIG would do so at the end of the thread that started it, which may be long before.
  ::fcntl(watched, F_SETOWN, pid_);
  ::fcntl(watched, F_SETFL, O_ASYNC | O_NONBLOCK);
  const timeval patience{0, static_cast<suseconds_t>(kPatience * 1e6)};
  ::setsockopt(ours, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  socket_ = ours, lifeline_ = lifeline, memory_fd_ = memory;
  std::erase_if(descriptors.held, [&](int fd) { return fd == ours || fd == lifeline || fd == memory; });
  alive_ = true;
}

PythonProcess::~PythonProcess() {
  if (alive_) {
    ::shutdown(socket_, SHUT_WR);  // asks it to end; its own end of the socket closes when it has
    const auto start = Clock::now();
    char byte = 0;
    while (seconds_since(start) < kFarewell) {
      const ssize_t got = ::recv(socket_, &byte, 1, 0);
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
    }
  }
  kill_and_reap();
  if (memory_) ::munmap(memory_, size_);
  for (int fd : {socket_, memory_fd_, lifeline_}) ::close(fd);
}

void PythonProcess::kill_and_reap() {
  alive_ = false;
  if (reaped_ || pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
}

void PythonProcess::fail_gone(const char* what) {
  alive_ = false;
  // It has closed its socket, or is dead: its status is there in a moment.
  const auto start = Clock::now();
  while (!reaped_ && seconds_since(start) < kPatience) {
    reaped_ = ::waitpid(pid_, &status_, WNOHANG) != 0;
    if (!reaped_) ::poll(nullptr, 0, 1);
  }
  const bool ended_itself = reaped_;
  kill_and_reap();
  raise(
      "{}: the Python process (pid {}) {} during {}; its last words, if any, are on standard error. reset() starts it "
      "again",
      who_, pid_, ended_itself ? end_of(status_) : "closed its socket", what);
}

void PythonProcess::send(std::string_view bytes, const char* what) {
  PARL_CHECK(alive_, "{}: its Python process is gone; reset() starts it again", who_);
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) fail_gone(what);
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void PythonProcess::receive(void* bytes, size_t count, double timeout, const char* what) {
  PARL_CHECK(alive_, "{}: its Python process is gone; reset() starts it again", who_);
  auto* to = static_cast<char*>(bytes);
  std::optional<Clock::time_point> silent_since;
  while (count > 0) {
    const ssize_t got = ::recv(socket_, to, count, 0);
    if (got > 0) {
      to += got;
      count -= static_cast<size_t>(got);
      silent_since.reset();
      continue;
    }
    const bool interrupted = got < 0 && errno == EINTR;
    if (got == 0 || (errno != EAGAIN && !interrupted)) fail_gone(what);
    // Silent for kPatience, or interrupted. A child of its own may hold the socket open: ask for the process itself.
    if (::waitpid(pid_, &status_, WNOHANG) != 0) {
      reaped_ = true;
      fail_gone(what);
    }
    if (!silent_since) {
      silent_since = Clock::now() - std::chrono::milliseconds(interrupted ? 0 : static_cast<int>(1e3 * kPatience));
    }
    const double silent = seconds_since(*silent_since);
    if (is_starting_) look_at_start(silent, timeout, what);
    if (silent < timeout) continue;
    kill_and_reap();
    raise(
        "{}: no answer to {} for {} s, so the Python process (pid {}) was killed. Give it more time with --env-args "
        "{}=SECONDS{}",
        who_, what, timeout, pid_, is_starting_ ? "start_timeout" : "timeout",
        is_starting_ ? "" : "; reset() starts it again");
  }
}

void PythonProcess::look_at_start(double silent, double timeout, const char* what) {
  constexpr double kSlow = 5;
  if (is_interrupted()) {
    kill_and_reap();
    throw Interrupted(fmt::format("{}: interrupted during {}", who_, what));
  }
  if (silent < kSlow || is_slow_) return;
  is_slow_ = true;
  log().info("{}: {} takes long, {:.0f} s so far; it may take {} s (--env-args start_timeout=SECONDS)", who_, what,
             silent, timeout);
}

void PythonProcess::send_text(const std::string& text, const char* what) {
  const auto size = static_cast<uint32_t>(text.size());
  std::string message(sizeof(size), '\0');
  std::memcpy(message.data(), &size, sizeof(size));
  send(message + text, what);
}

std::string PythonProcess::receive_text(double timeout, const char* what) {
  uint32_t size = 0;
  receive(&size, sizeof(size), timeout, what);
  constexpr uint32_t kMost = 64u << 20;
  PARL_CHECK(size <= kMost, "{}: the Python process announced a text of {} bytes", who_, size);
  std::string text(size, '\0');
  receive(text.data(), size, timeout, what);
  return text;
}

std::byte* PythonProcess::map(size_t bytes) {
  PARL_CHECK(memory_ == nullptr, "{}: the shared memory is there already", who_);
  PARL_CHECK(::ftruncate(memory_fd_, static_cast<off_t>(bytes)) == 0, "{}: no shared memory of {} bytes: {}", who_,
             bytes, std::strerror(errno));
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd_, 0);
  PARL_CHECK(at != MAP_FAILED, "{}: no shared memory of {} bytes: {}", who_, bytes, std::strerror(errno));
  memory_ = static_cast<std::byte*>(at);
  size_ = bytes;
  return memory_;
}

}  // namespace parl::internal
