#include "parl/remote/internal/metrics_server.h"

#ifdef PARL_HAVE_HTTPLIB
#include <httplib.h>
#endif
#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

#include "parl/core/check.h"
#include "parl/core/log.h"
#include "parl/remote/internal/address.h"

namespace parl::internal {
namespace {

constexpr size_t kLongestRequest = 4096;
constexpr int kThreads = 2;
constexpr int kPatienceSeconds = 1;

void check_reach(const Address& address, bool is_insecure_allowed) {
  PARL_CHECK(!address.is_unix(), "--parl-metrics wants host:port, not {}", address.text());
  PARL_CHECK(is_insecure_allowed || is_local(address),
             "--parl-metrics {}:{} reaches beyond this machine, and HTTP asks nobody who he is: give 127.0.0.1:{}, and "
             "let what collects it run here or come through a tunnel. Where everybody on the network is trusted, "
             "--parl-insecure goes without",
             address.host, address.port, address.port);
}

}  // namespace

#ifdef PARL_HAVE_HTTPLIB

struct MetricsServer::Server {
  httplib::Server http;
  std::thread thread;
};

namespace {

// This library changes no program's signal handlers; httplib would.
class KeepSigpipe {
 public:
  KeepSigpipe() { ::sigaction(SIGPIPE, nullptr, &before_); }
  ~KeepSigpipe() { ::sigaction(SIGPIPE, &before_, nullptr); }
  KeepSigpipe(const KeepSigpipe&) = delete;
  KeepSigpipe& operator=(const KeepSigpipe&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace

bool MetricsServer::is_built_in() { return true; }

MetricsServer::MetricsServer(const std::string& where, bool is_insecure_allowed, std::function<std::string()> text) {
  Address address = parse_address(where);
  check_reach(address, is_insecure_allowed);
  {
    const KeepSigpipe keep;
    server_ = std::make_unique<Server>();
  }
  httplib::Server& http = server_->http;
  http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  http.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  http.set_keep_alive_max_count(1);
  http.set_keep_alive_timeout(kPatienceSeconds);
  http.set_read_timeout(kPatienceSeconds);
  http.set_write_timeout(kPatienceSeconds);
  http.set_payload_max_length(kLongestRequest);
  http.Get("/metrics", [text = std::move(text)](const httplib::Request&, httplib::Response& response) {
    response.set_content(text(), "text/plain; version=0.0.4; charset=utf-8");
  });
  const int port = address.port == 0 ? http.bind_to_any_port(address.host)
                                     : (http.bind_to_port(address.host, address.port) ? address.port : -1);
  PARL_CHECK(port > 0, "--parl-metrics: nobody can listen on {}; is the port in use?", where);
  address.port = static_cast<uint16_t>(port);
  address_ = address.text().substr(std::string("tcp://").size());
  // Its threads inherit that they take no signals, SIGPIPE least of all.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  server_->thread = std::thread([&http] { http.listen_after_bind(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(server_->thread.native_handle(), "parl-metrics");
  log().info("metrics for Prometheus: http://{}/metrics", address_);
}

MetricsServer::~MetricsServer() {
  while (!server_->http.is_running()) std::this_thread::yield();  // stop() would do nothing
  server_->http.stop();
  server_->thread.join();
}

#else

struct MetricsServer::Server {};

bool MetricsServer::is_built_in() { return false; }

MetricsServer::MetricsServer(const std::string& where, bool is_insecure_allowed, std::function<std::string()>) {
  check_reach(parse_address(where), is_insecure_allowed);
  raise(
      "--parl-metrics {}: this program was built without an HTTP server. Install cpp-httplib (Debian: apt-get install "
      "libcpp-httplib-dev), configure with CMake and build again; `parl status` needs none",
      where);
}

MetricsServer::~MetricsServer() = default;

#endif

}  // namespace parl::internal
