// For tests: a worker process of this test program that dials in, and a port that is free.
// Thread rule: one thread.
#pragma once

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parl/remote/internal/log_pump.h"
#include "parl/remote/internal/spawn.h"

namespace parl::internal {

// Free a moment ago.
inline std::string free_tcp_address() {
  const UniqueFd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof own;
  ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&own), size);
  ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&own), &size);
  return "tcp://127.0.0.1:" + std::to_string(ntohs(own.sin_port));
}

// Stops a process, and returns when all its threads stand still: a signal takes its time.
inline void stop_process(pid_t pid) {
  ::kill(pid, SIGSTOP);
  const auto is_stopped = [](const std::filesystem::path& task) {
    std::ifstream file(task / "stat");
    std::string line;
    std::getline(file, line);
    const size_t name_end = line.rfind(')');
    return name_end == std::string::npos || line.compare(name_end, 3, ") T") == 0;
  };
  for (int i = 0; i < 5000; ++i) {
    const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(pid) + "/task");
    if (std::all_of(begin(tasks), end(tasks), [&](const auto& task) { return is_stopped(task.path()); })) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

class TestWorker {
 public:
  TestWorker(const std::string& address, int slots, std::vector<std::pair<std::string, std::string>> environment = {},
             const std::vector<std::string>& more = {})
      : child_(spawn_self({arguments(address, slots, more), std::move(environment)})) {}
  ~TestWorker() {
    send_signal(child_, SIGKILL);
    wait_end();
  }
  TestWorker(const TestWorker&) = delete;
  TestWorker& operator=(const TestWorker&) = delete;

  pid_t pid() const { return child_.pid; }
  void signal(int number) const { send_signal(child_, number); }
  // Its exit status, or less than 0 after a signal; once.
  int wait_end() const {
    siginfo_t info{};
    ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(child_.pidfd.get()), &info, WEXITED);
    return info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
  }
  // The last lines that it printed and logged.
  std::string output() {
    pump_.pump(child_.output.get());
    return pump_.last_lines();
  }

 private:
  static std::vector<std::string> arguments(const std::string& address, int slots,
                                            const std::vector<std::string>& more) {
    std::vector<std::string> all{"--parl-worker", address, "--slots", std::to_string(slots)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  ChildProcess child_;
  LogPump pump_{"", "", [](const std::string&) {}};
};

}  // namespace parl::internal
