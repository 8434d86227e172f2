// The bytes of one connection: a stream socket, plain or (tls.h) encrypted. Non-blocking.
// Thread rule: read() and handshake() belong to the I/O thread, write() to whoever holds the connection's send lock.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <string>

#include "parl/remote/internal/unique_fd.h"

namespace parl::internal {

class Transport {
 public:
  static constexpr ssize_t kClosed = 0;   // by the peer, or broken: see error()
  static constexpr ssize_t kNotNow = -1;  // the socket would block
  enum class Step { kDone, kWantsRead, kWantsWrite, kFailed };

  virtual ~Transport() = default;
  virtual ssize_t read(const iovec* pieces, int count) = 0;
  virtual ssize_t write(const iovec* pieces, int count) = 0;
  // Before the first read or write; until kDone.
  virtual Step handshake() { return Step::kDone; }
  // Bytes that read() gives without the socket being readable.
  virtual bool has_buffered() const { return false; }
  // No more is sent: the peer reads an end.
  virtual void end_sending() = 0;
  virtual int fd() const = 0;
  // Why it is closed: "closed its connection", "connection reset by peer".
  virtual std::string error() const = 0;
  // Who the peer is by certificate, for the log; empty: nobody vouches for it.
  virtual std::string identity() const { return {}; }
  // What the two ends of this channel share and nobody between them knows; empty: it is not encrypted.
  virtual std::string binding() const { return {}; }
};

// `socket` is non-blocking.
std::unique_ptr<Transport> make_plain_transport(UniqueFd socket);

}  // namespace parl::internal
