#include "parl/remote/internal/auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>

#include "parl/core/check.h"
#include "parl/remote/internal/class_info.h"
#include "parl/remote/internal/tls.h"

namespace parl::internal {
namespace {

constexpr size_t kNonce = 32;
constexpr size_t kShortestToken = 16;

std::string read_token(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  PARL_CHECK(file, "the token file '{}' cannot be read; `parl keygen token FILE` makes one", path);
  std::string token((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back()))) token.pop_back();
  PARL_CHECK(token.size() >= kShortestToken,
             "the token in '{}' is shorter than {} characters; `parl keygen token FILE` "
             "makes a good one",
             path, kShortestToken);
  return token;
}

std::string_view title(Side side) {
  constexpr std::string_view kTitles[] = {"parl worker", "parl learner", "parl observer"};
  return kTitles[static_cast<size_t>(side)];
}

}  // namespace

Security load_security(const Options& options) {
  Security security;
  if (!options.token_file.empty()) security.token = read_token(options.token_file);
  if (!options.certificates.empty()) security.tls = TlsContext::load(options.certificates);
  security.is_insecure_allowed = options.insecure;
  return security;
}

void check_guarded(const Address& address, const Security& security) {
  if (!security.token.empty() || security.tls || security.is_insecure_allowed || is_local(address)) return;
  raise(
      "{} reaches beyond this machine, and nothing guards it: set PARL_TOKEN_FILE (or --parl-token-file) to a file "
      "with a "
      "secret that learner and workers share (`parl keygen token FILE` makes one), or --parl-certificates to a folder "
      "for "
      "TLS (`parl keygen certificates DIR HOST`). Where everybody on the network is trusted, --parl-insecure goes "
      "without",
      address.text());
}

std::unique_ptr<Transport> make_transport(UniqueFd socket, const Security& security, const std::string& host) {
  if (!security.tls) return make_plain_transport(std::move(socket));
  if (!host.empty()) return security.tls->connect(std::move(socket), host);
  return security.tls->accept(std::move(socket), security.token.empty());
}

std::string random_nonce() {
  std::array<unsigned char, kNonce> bytes{};
  PARL_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "no random numbers are to be had");
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string prove(const Security& security, Side side, const Greeting& guest, const Greeting& learner,
                  const std::string& binding) {
  if (security.token.empty()) return {};
  std::string text(title(side));
  text += guest.nonce;
  text += learner.nonce;
  text += binding;
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned int size = 0;
  const auto* done = HMAC(EVP_sha256(), security.token.data(), static_cast<int>(security.token.size()),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &size);
  PARL_CHECK(done, "HMAC-SHA256 failed");
  return std::string(reinterpret_cast<const char*>(mac.data()), size);
}

bool is_proved(const Security& security, Side side, const Greeting& guest, const Greeting& learner,
               const std::string& binding, const std::string& mac) {
  if (security.token.empty()) return true;
  const std::string own = prove(security, side, guest, learner, binding);
  return own.size() == mac.size() && CRYPTO_memcmp(own.data(), mac.data(), own.size()) == 0;
}

Greeting make_greeting(const Security& security, Role role) {
  Greeting greeting;
  greeting.protocol = kProtocolVersion;
  greeting.nonce = random_nonce();
  greeting.has_token = !security.token.empty();
  greeting.pid = ::getpid();
  greeting.host = this_host();
  greeting.role = role;
  return greeting;
}

Greeting read_greeting(Reader& reader) {
  Greeting greeting;
  greeting.mark = wire::load<std::string>(reader);
  PARL_CHECK(greeting.mark == kMark, "it is no peer of this library");
  greeting.protocol = wire::load<int32_t>(reader);
  if (greeting.protocol != kProtocolVersion)
    raise("it speaks protocol {}, this program {}: build both from the same version", greeting.protocol,
          kProtocolVersion);
  greeting.nonce = wire::load<std::string>(reader);
  PARL_CHECK(greeting.nonce.size() == kNonce, "its challenge has {} bytes, not {}", greeting.nonce.size(), kNonce);
  greeting.has_token = wire::load<bool>(reader);
  greeting.pid = wire::load<int64_t>(reader);
  greeting.host = wire::load<std::string>(reader);
  greeting.role = wire::load<Role>(reader);
  PARL_CHECK(greeting.role == Role::kWorker || greeting.role == Role::kObserver, "it comes in a role of number {}",
             static_cast<int>(greeting.role));
  reader.finish();
  return greeting;
}

std::string why_not(const Security& security, const Greeting& learner) {
  if (learner.has_token && security.token.empty())
    return "the learner asks for a token: set PARL_TOKEN_FILE to a copy of its file";
  if (!learner.has_token && !security.token.empty())
    return "this side has a token (PARL_TOKEN_FILE) and the learner has none: it may be somebody else's";
  return {};
}

}  // namespace parl::internal
