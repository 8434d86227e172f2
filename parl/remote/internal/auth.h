// Who may talk to whom: a token that both sides know and never send, or certificates, or nobody from outside.
//
// The token is proved by challenge and response: each side sends 32 random bytes, and an HMAC-SHA256 of both sides'
// bytes under the token, which differs by direction; under TLS it covers the channel too, so that nobody can pass it
// on. Without TLS it says who connects, and does not keep out an attacker on the way between them, who can take over
// the connection afterwards. Secrets come from files; they are in no message of this library. Thread rule: values; any
// thread.
#pragma once

#include <memory>
#include <string>

#include "parl/remote/internal/address.h"
#include "parl/remote/internal/tcp_protocol.h"
#include "parl/remote/internal/transport.h"
#include "parl/remote/options.h"

namespace parl::internal {

class TlsContext;

struct Security {
  std::string token;                // empty: none
  std::shared_ptr<TlsContext> tls;  // null: none
  bool is_insecure_allowed = false;
};

// What the options name, read from its files. Throws parl::Error.
Security load_security(const Options& options);

// Throws parl::Error, which says what to do, when `address` can be reached from elsewhere and nothing guards it.
void check_guarded(const Address& address, const Security& security);

// `host`: the one that was dialled, whose name its certificate must bear ("*": any); empty: this is the learner's side.
std::unique_ptr<Transport> make_transport(UniqueFd socket, const Security& security, const std::string& host);

enum class Side : uint8_t { kWorker, kLearner, kObserver };

std::string random_nonce();
// Who a peer says it is that dials in.
inline Side side_of(const Greeting& guest) { return guest.role == Role::kObserver ? Side::kObserver : Side::kWorker; }
// What `side` sends to show that it has the token; empty without one. `binding`: the channel's (transport.h).
std::string prove(const Security& security, Side side, const Greeting& guest, const Greeting& learner,
                  const std::string& binding);
// In constant time. True also when there is no token.
bool is_proved(const Security& security, Side side, const Greeting& guest, const Greeting& learner,
               const std::string& binding, const std::string& mac);

Greeting make_greeting(const Security& security, Role role = Role::kWorker);
// Reads a Greeting. Throws parl::Error that says what differs when the peer is of another protocol.
Greeting read_greeting(Reader& reader);
// Why a guest goes no further with this learner; empty: it may prove who it is.
std::string why_not(const Security& security, const Greeting& learner);

}  // namespace parl::internal
