// TLS 1.3 by OpenSSL for connections beyond this machine, with certificates from a folder that `parl keygen` makes:
//   ca.pem        whom this side believes
//   cert.pem      its own certificate, and
//   key.pem       the key to it
// The learner shows its certificate always, and a worker checks that it bears the name that was dialled. A worker shows
// its own if it has one; without a token it must.
// Thread rule: a context from any thread; a transport as transport.h says.
#pragma once

#include <memory>
#include <string>

#include "parl/remote/internal/transport.h"

namespace parl::internal {

class TlsContext {
 public:
  // Throws parl::Error that names the file which is missing or wrong.
  static std::shared_ptr<TlsContext> load(const std::string& folder);
  virtual ~TlsContext() = default;

  // The learner's end. `must_have_certificate`: a worker without one is turned away.
  virtual std::unique_ptr<Transport> accept(UniqueFd socket, bool must_have_certificate) = 0;
  // The worker's end; `host` is the name or number that was dialled; "*": any will do.
  virtual std::unique_ptr<Transport> connect(UniqueFd socket, const std::string& host) = 0;
};

}  // namespace parl::internal
