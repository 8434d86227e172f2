// Starts a copy of this program as a worker, and learns of its end.
//
// The child is /proc/self/exe (the program that runs now, even if its file was replaced), with its end of a socket pair
// as descriptor kWorkerSocket, stdin from /dev/null, stdout and stderr in one pipe, an empty signal mask, and a process
// group of its own, so that Ctrl-C reaches the learner alone. No other descriptor is inherited.
// Its end is read from a pidfd: no SIGCHLD, no waitpid(-1), so a user's own children are left in peace.
// A child costs the learner three descriptors: socket, output pipe, pidfd.
// Thread rule: any thread. spawn_self() blocks until the child has called exec (about a millisecond).
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "parl/remote/internal/unique_fd.h"

namespace parl::internal {

inline constexpr int kWorkerSocket = 3;  // where a worker finds its connection
inline constexpr int kDescriptorsPerWorker = 3;

struct SpawnOptions {
  std::vector<std::string> arguments;                            // after argv[0]
  std::vector<std::pair<std::string, std::string>> environment;  // added to, or replacing, the learner's own
  std::string program = "/proc/self/exe";
};

struct ChildProcess {
  pid_t pid = -1;
  UniqueFd pidfd;   // readable once the child has ended
  UniqueFd socket;  // our end, non-blocking
  UniqueFd output;  // what it prints, non-blocking
};

// Throws parl::Error naming the limit and the need when descriptors, processes or memory run out.
ChildProcess spawn_self(const SpawnOptions& options);

struct ExitStatus {
  bool known = false;  // false: somebody else collected it (the program waits for all children, or ignores SIGCHLD)
  int code = 0;        // exit code, or -signal
  std::string text;    // "exited with status 3", "was killed by signal 9 (Killed)"
};

// Collects an ended child. False: it still runs.
bool reap(const ChildProcess& child, ExitStatus& status);

// Signals through the pidfd, so never a stranger who got the same number. A child that has ended is no error.
void send_signal(const ChildProcess& child, int signal);

// A pidfd for a running process; invalid when it is gone.
UniqueFd open_pidfd(pid_t pid);

// This program's command line, from /proc. The pointers end with the object.
struct OwnArguments {
  OwnArguments();
  OwnArguments(const OwnArguments&) = delete;
  OwnArguments& operator=(const OwnArguments&) = delete;

  std::string text;
  std::vector<char*> args;
};

// Lifts the soft limit of open descriptors to the hard one (at most 2^20). Idempotent. Returns the limit in force.
size_t raise_descriptor_limit();

// "…: the limit of 1024 open descriptors is reached (hard limit 4096); a worker needs 3, …" for EMFILE and ENFILE;
// otherwise what strerror says.
std::string resource_message(const std::string& what, int error, int per_worker = kDescriptorsPerWorker);

}  // namespace parl::internal
