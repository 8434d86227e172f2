// For tests: a worker process of this test program that dials in, and a port that is free.
// Thread rule: one thread.
#pragma once

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <string>
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

class TestWorker {
 public:
  TestWorker(const std::string& address, int slots, std::vector<std::pair<std::string, std::string>> environment = {})
      : child_(spawn_self({{"--parl-worker", address, "--slots", std::to_string(slots)}, std::move(environment)})) {}
  ~TestWorker() {
    send_signal(child_, SIGKILL);
    wait_end();
  }
  TestWorker(const TestWorker&) = delete;
  TestWorker& operator=(const TestWorker&) = delete;

  pid_t pid() const { return child_.pid; }
  void signal(int number) const { send_signal(child_, number); }
  void wait_end() const {
    ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(child_.pidfd.get()), nullptr, WEXITED);
  }
  // The last lines that it printed and logged.
  std::string output() {
    pump_.pump(child_.output.get());
    return pump_.last_lines();
  }

 private:
  ChildProcess child_;
  LogPump pump_{"", "", [](const std::string&) {}};
};

}  // namespace parl::internal
