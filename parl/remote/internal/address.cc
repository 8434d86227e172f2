#include "parl/remote/internal/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "parl/core/check.h"
#include "parl/remote/internal/spawn.h"

namespace parl::internal {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr int kBacklog = 1024;
constexpr int kMostPorts = 16;  // tried for one that is free on all addresses
constexpr const char* kHow = "write tcp://host:port, [ipv6]:port or unix:/path";

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses look_up(const Address& address, bool to_listen) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) raise("the host '{}' is not known: {}", address.host, ::gai_strerror(error));
  return Addresses(found);
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  if (address->sa_family != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

sockaddr_un unix_address(const Address& address) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  PARL_CHECK(address.path.size() < sizeof out.sun_path, "the path of a unix socket has at most {} characters: {}",
             sizeof out.sun_path - 1, address.path);
  std::memcpy(out.sun_path, address.path.data(), address.path.size());
  return out;
}

UniqueFd open_socket(int family, const Address& address) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw Error(resource_message("cannot open a socket for " + address.text(), errno));
  return fd;
}

[[noreturn]] void cannot_listen(const Address& address, int error) {
  if (error == EADDRINUSE)
    raise("cannot listen on {}: it is in use; is another learner running there? End it, or take another port",
          address.text());
  if (error == EADDRNOTAVAIL) raise("cannot listen on {}: this machine does not have that address", address.text());
  raise("cannot listen on {}: {}", address.text(), ::strerror(error));
}

// A socket file that nobody listens on is left over from a learner that was killed.
void remove_stale(const Address& address, const sockaddr_un& where) {
  struct stat status {};
  if (::lstat(address.path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const UniqueFd probe = open_socket(AF_UNIX, address);
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0 && errno == ECONNREFUSED)
    ::unlink(address.path.c_str());
}

UniqueFd listen_unix(const Address& address) {
  const sockaddr_un where = unix_address(address);
  remove_stale(address, where);
  UniqueFd fd = open_socket(AF_UNIX, address);
  ::fchmod(fd.get(), S_IRUSR | S_IWUSR);  // for this user alone
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) cannot_listen(address, errno);
  ::chmod(address.path.c_str(), S_IRUSR | S_IWUSR);
  if (::listen(fd.get(), kBacklog) != 0) cannot_listen(address, errno);
  return fd;
}

// A name may stand for an address that is not set up here (IPv6 switched off): then empty, with the error.
UniqueFd listen_tcp(const addrinfo& where, const Address& address, int& error) {
  UniqueFd fd(::socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  error = fd ? 0 : errno;
  if (error == EAFNOSUPPORT) return {};
  if (!fd) throw Error(resource_message("cannot open a socket for " + address.text(), error));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (where.ai_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd.get(), where.ai_addr, where.ai_addrlen) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    error = errno;
    return {};
  }
  return fd;
}

bool is_same(const addrinfo& a, const addrinfo& b) {
  return a.ai_addrlen == b.ai_addrlen && std::memcmp(a.ai_addr, b.ai_addr, a.ai_addrlen) == 0;
}

// A name's addresses, each once.
std::vector<addrinfo*> distinct(const Addresses& list) {
  std::vector<addrinfo*> out;
  for (addrinfo* a = list.get(); a; a = a->ai_next)
    if (std::none_of(out.begin(), out.end(), [&](const addrinfo* b) { return is_same(*a, *b); })) out.push_back(a);
  return out;
}

uint16_t port_of(int socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

void set_port(addrinfo& where, uint16_t port) {
  (where.ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(where.ai_addr)->sin6_port
                               : reinterpret_cast<sockaddr_in*>(where.ai_addr)->sin_port) = htons(port);
}

// Sockets for all addresses of the host but those that are not set up here. None, with the error: it cannot be.
std::vector<UniqueFd> try_to_listen(Address& address, int& error) {
  std::vector<UniqueFd> sockets;
  const Addresses found = look_up(address, true);
  int first = 0;
  for (addrinfo* a : distinct(found)) {
    if (address.port != 0) set_port(*a, address.port);  // the one that the first socket got
    UniqueFd fd = listen_tcp(*a, address, error);
    if (fd) {
      sockets.push_back(std::move(fd));
      address.port = port_of(sockets.back().get());
      continue;
    }
    if (first == 0) first = error;
    if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) return {};
  }
  error = sockets.empty() ? first : 0;
  return sockets;
}

// 0, or the error.
int finish_connecting(int socket, Time deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd poll{socket, POLLOUT, 0};
    const int ready = ::poll(&poll, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60000)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready > 0) break;
    if (std::chrono::steady_clock::now() >= deadline) return ETIMEDOUT;
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

std::string Address::text() const {
  if (is_unix()) return "unix:" + path;
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("tcp://[{}]:{}", host, port) : fmt::format("tcp://{}:{}", host, port);
}

Address parse_address(std::string_view text) {
  constexpr std::string_view kTcp = "tcp://", kUnix = "unix:";
  std::string_view rest = text;
  if (rest.substr(0, kTcp.size()) == kTcp) rest.remove_prefix(kTcp.size());
  Address address;
  if (rest.substr(0, kUnix.size()) == kUnix) {
    address.path = rest.substr(kUnix.size());
    PARL_CHECK(!address.path.empty(), "'{}' has no path: {}", text, kHow);
    return address;
  }
  const size_t colon = rest.rfind(':');
  PARL_CHECK(colon != std::string_view::npos && colon > 0, "'{}' has no port: {}", text, kHow);
  std::string_view host = rest.substr(0, colon);
  const std::string_view port = rest.substr(colon + 1);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else {
    PARL_CHECK(host.find(':') == std::string_view::npos, "'{}': an IPv6 address stands in brackets; {}", text, kHow);
  }
  PARL_CHECK(!host.empty(), "'{}' has no host: {}", text, kHow);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  PARL_CHECK(error == std::errc() && end == port.data() + port.size(), "'{}' is no port (0 to 65535) in '{}'", port,
             text);
  address.host = host;
  return address;
}

bool is_local(const Address& address) {
  if (address.is_unix()) return true;
  const Addresses found = look_up(address, true);
  for (const addrinfo* a = found.get(); a; a = a->ai_next)
    if (!is_loopback(a->ai_addr)) return false;
  return true;
}

std::vector<UniqueFd> listen_on(Address& address) {
  std::vector<UniqueFd> sockets;
  if (address.is_unix()) {
    sockets.push_back(listen_unix(address));
    return sockets;
  }
  for (int i = 1;; ++i) {
    Address tried = address;
    int error = 0;
    sockets = try_to_listen(tried, error);
    if (error == 0) {
      address = tried;
      return sockets;
    }
    // A port that was free on the first address only: another one will be.
    if (address.port != 0 || error != EADDRINUSE || i == kMostPorts) cannot_listen(address, error);
  }
}

UniqueFd connect_to(const Address& address, Time deadline) {
  int error = ECONNREFUSED;
  const auto attempt = [&](int family, const sockaddr* where, socklen_t size, Time until) {
    UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    error = fd && ::connect(fd.get(), where, size) == 0 ? 0 : errno;
    if (fd && error == EINPROGRESS) error = finish_connecting(fd.get(), until);
    if (error != 0) fd.reset();
    return fd;
  };
  UniqueFd fd;
  if (address.is_unix()) {
    const sockaddr_un where = unix_address(address);
    fd = attempt(AF_UNIX, reinterpret_cast<const sockaddr*>(&where), sizeof where, deadline);
  } else {
    const Addresses found = look_up(address, false);
    const std::vector<addrinfo*> all = distinct(found);
    for (size_t i = 0; i < all.size() && !fd; ++i) {
      const Time now = std::chrono::steady_clock::now();
      const auto share = (deadline - now) / static_cast<int64_t>(all.size() - i);  // one that is silent leaves the rest
      fd = attempt(all[i]->ai_family, all[i]->ai_addr, all[i]->ai_addrlen, now + share);
    }
  }
  if (error == EMFILE || error == ENFILE)
    throw Error(resource_message("cannot open a socket for " + address.text(), error));
  if (!fd) raise("cannot connect to {}: {}", address.text(), ::strerror(error));
  return fd;
}

void tune_socket(int socket, std::chrono::seconds patience) {
  const auto set = [&](int level, int name, int value) { ::setsockopt(socket, level, name, &value, sizeof value); };
  constexpr int kNotSent = 512 * 1024;
  constexpr int kProbes = 3;
  const int every = std::max(1, static_cast<int>(patience.count()) / (kProbes + 1));
  set(IPPROTO_TCP, TCP_NODELAY, 1);  // on a unix socket these do nothing
  set(IPPROTO_TCP, TCP_NOTSENT_LOWAT, kNotSent);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, every);
  set(IPPROTO_TCP, TCP_KEEPINTVL, every);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

bool is_unanswered(int socket, std::chrono::milliseconds patience) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  return info.tcpi_unacked > 0 && info.tcpi_last_ack_recv > patience.count();
}

std::string peer_name(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "a peer that is gone";
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(v4.sin_port));
  }
  if (peer.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(v6.sin6_port));
  }
  return "a local socket";
}

}  // namespace parl::internal
