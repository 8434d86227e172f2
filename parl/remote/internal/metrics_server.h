// GET /metrics over HTTP, for Prometheus: read-only, and off unless it is asked for (--parl-metrics).
//
// HTTP asks nobody who he is. So it listens on loopback, and beyond only where everybody is trusted (--parl-insecure):
// a token of the learner's own port would have to be sent in clear here. It answers nothing else and reads at most a
// few kilobytes; two threads serve it, so that it cannot hold up the I/O thread. Needs cpp-httplib (Debian:
// libcpp-httplib-dev) when the library is built. Thread rule: one thread makes and destroys it; `text` is called on its
// threads.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace parl::internal {

class MetricsServer {
 public:
  // `where`: "127.0.0.1:9100"; port 0: one that is free. Throws parl::Error: in use, beyond loopback, not built in.
  MetricsServer(const std::string& where, bool is_insecure_allowed, std::function<std::string()> text);
  // Returns when no request is being answered, within about two seconds.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  const std::string& address() const { return address_; }  // with the port that it got
  static bool is_built_in();

 private:
  struct Server;
  std::string address_;
  std::unique_ptr<Server> server_;
};

}  // namespace parl::internal
