// For tests: what this process holds, and a process of its own for what a test changes of its process (limits,
// namespaces, mounts).
// Thread rule: one thread; Forked while no other thread runs.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "parl/core/process.h"

namespace parl::internal {

// The sanitizers need memory of their own and keep what is freed; AddressSanitizer's companion checks the types of
// objects with the help of a descriptor.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitizer = true;
#else
inline constexpr bool kSanitizer = false;
#endif

struct Holdings {
  size_t descriptors = 0, threads = 0, children = 0;
  double megabytes = 0;  // resident
};

inline size_t entries_of(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// Of this process, zombies included.
inline size_t count_children() {
  const pid_t own = ::getpid();
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    if (!std::isdigit(static_cast<unsigned char>(entry.path().filename().string().front()))) continue;
    std::ifstream file(entry.path() / "stat");
    std::string line;
    std::getline(file, line);
    const size_t name_end = line.rfind(')');
    if (name_end == std::string::npos) continue;  // it has just gone
    pid_t parent = 0;
    if (std::sscanf(line.c_str() + name_end + 1, " %*c %d", &parent) == 1 && parent == own) ++count;
  }
  return count;
}

inline Holdings holdings() {
  Holdings held;
  held.descriptors = entries_of("/proc/self/fd");
  held.threads = entries_of("/proc/self/task");
  held.children = count_children();
  held.megabytes = static_cast<double>(resident_bytes()) / 1e6;
  return held;
}

// Runs `body` in a child process; its result is the exit status.
class Forked {
 public:
  explicit Forked(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(run(body));
  }
  // -1: it was killed.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  static int run(const std::function<int()>& body) {
    try {
      return body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "not caught in a child process: %s\n", error.what());
      return 1;
    }
  }
  const pid_t pid_;
};

// Expectations of a child process, where gtest's would not reach the suite.
class Verdict {
 public:
  static constexpr int kSkipped = 77;
  void expect(bool holds, const std::string& what) {
    if (holds) return;
    is_good_ = false;
    std::fprintf(stderr, "not true: %s\n", what.c_str());
  }
  int result() const { return is_good_ ? 0 : 1; }

 private:
  bool is_good_ = true;
};

}  // namespace parl::internal
