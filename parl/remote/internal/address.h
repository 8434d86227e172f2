// Where a learner listens and workers dial: "tcp://host:port", "host:port", "[::1]:port", "unix:/path" (also as
// "tcp://unix:/path"). A host is a name or a number, IPv4 or IPv6.
// Thread rule: any thread. Looking a name up may block for as long as the system's resolver does.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parl/remote/internal/unique_fd.h"

namespace parl::internal {

struct Address {
  std::string host;  // empty: a unix socket
  uint16_t port = 0;
  std::string path;  // of the unix socket
  bool is_unix() const { return host.empty(); }
  std::string text() const;  // "tcp://[::1]:8037", "unix:/path"
};

// Throws parl::Error that shows how an address is written.
Address parse_address(std::string_view text);

// Only this machine can reach it: a unix socket, or a host all of whose addresses are loopback's.
// Throws parl::Error when the host is not known.
bool is_local(const Address& address);

// Sockets that listen, non-blocking: one for each of the host's addresses. Port 0: one that is free, noted in
// `address`. Throws parl::Error: in use (perhaps by another learner), not ours, no descriptors.
std::vector<UniqueFd> listen_on(Address& address);

// A connected, non-blocking socket. Throws parl::Error that says why there is none by `deadline`.
UniqueFd connect_to(const Address& address, std::chrono::steady_clock::time_point deadline);

// For a connected stream socket: no delay for small messages, little queued in the kernel (so that chunks of all
// objects take turns here), and the kernel's own sign of life. `patience`: how long the peer's kernel may be silent.
void tune_socket(int socket, std::chrono::seconds patience);

// What was sent has not been acknowledged, and the peer's kernel has been silent for `patience`: its machine or the way
// there is gone. False for a unix socket.
bool is_unanswered(int socket, std::chrono::milliseconds patience);

// "10.0.0.1:40312", "a local socket".
std::string peer_name(int socket);

}  // namespace parl::internal
