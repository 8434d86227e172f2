#include "parl/remote/internal/tls.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

#include "parl/core/check.h"

namespace parl::internal {
namespace {

constexpr size_t kRecord = 16 * 1024;  // what one TLS record holds
constexpr size_t kReadAhead = 128 * 1024;

struct FreeContext {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
};
struct FreeSsl {
  void operator()(SSL* ssl) const { ::SSL_free(ssl); }
};

// What OpenSSL has to say about the last failure of this thread.
std::string last_error(const std::string& otherwise) {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  if (code == 0) return otherwise;
  const char* reason = ::ERR_reason_error_string(code);
  return reason ? reason : otherwise;
}

// OpenSSL's own socket BIO writes with write(2): a peer that has gone would end this program by SIGPIPE.
int socket_of(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(::BIO_get_data(bio))); }

int settle(BIO* bio, ssize_t done, int to_retry) {
  ::BIO_clear_retry_flags(bio);
  if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS))
    ::BIO_set_flags(bio, to_retry | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(done);
}

int bio_write(BIO* bio, const char* data, int size) {
  return settle(bio, ::send(socket_of(bio), data, static_cast<size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT),
                BIO_FLAGS_WRITE);
}

int bio_read(BIO* bio, char* data, int size) {
  errno = 0;  // an end is no error
  return settle(bio, ::recv(socket_of(bio), data, static_cast<size_t>(size), MSG_DONTWAIT), BIO_FLAGS_READ);
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO* make_socket_bio(int socket) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without signals");
    if (!made) return made;
    ::BIO_meth_set_write(made, bio_write);
    ::BIO_meth_set_read(made, bio_read);
    ::BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  BIO* bio = method ? ::BIO_new(method) : nullptr;
  PARL_CHECK(bio, "no TLS connection: {}", last_error("no memory"));
  ::BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket)));
  ::BIO_set_init(bio, 1);
  return bio;
}

class TlsTransport final : public Transport {
 public:
  TlsTransport(UniqueFd socket, std::unique_ptr<SSL, FreeSsl> ssl) : socket_(std::move(socket)), ssl_(std::move(ssl)) {
    BIO* bio = make_socket_bio(socket_.get());
    ::SSL_set_bio(ssl_.get(), bio, bio);
  }

  Step handshake() override {
    std::lock_guard lock(mutex_);
    ::ERR_clear_error();
    const int done = ::SSL_do_handshake(ssl_.get());
    if (done == 1) return Step::kDone;
    const int why = ::SSL_get_error(ssl_.get(), done);
    if (why == SSL_ERROR_WANT_READ) return Step::kWantsRead;
    if (why == SSL_ERROR_WANT_WRITE) return Step::kWantsWrite;
    const long verdict = ::SSL_get_verify_result(ssl_.get());
    std::string text = last_error("the peer closed");
    if (verdict != X509_V_OK) text += std::string(" (") + ::X509_verify_cert_error_string(verdict) + ")";
    error_ = "failed in the TLS handshake: " + text;
    return Step::kFailed;
  }

  ssize_t read(const iovec* pieces, int count) override {
    std::lock_guard lock(mutex_);
    ssize_t total = 0;
    for (int i = 0; i < count; ++i) {
      size_t done = 0;
      while (done < pieces[i].iov_len) {
        size_t got = 0;
        ::ERR_clear_error();
        const int good =
            ::SSL_read_ex(ssl_.get(), static_cast<char*>(pieces[i].iov_base) + done, pieces[i].iov_len - done, &got);
        if (!good) return total > 0 ? total : outcome(good);
        done += got;
        total += static_cast<ssize_t>(got);
      }
    }
    return total;
  }

  // A record at a time. After kNotNow the caller comes with the same bytes again, as OpenSSL wants it.
  ssize_t write(const iovec* pieces, int count) override {
    std::lock_guard lock(mutex_);
    ssize_t total = 0;
    int piece = 0;
    size_t offset = 0;
    while (piece < count) {
      const auto [data, size] = next_record(pieces, count, piece, offset);
      size_t sent = 0;
      ::ERR_clear_error();
      const int good = ::SSL_write_ex(ssl_.get(), data, size, &sent);
      if (!good) return total > 0 ? total : outcome(good);
      total += static_cast<ssize_t>(sent);
      skip(pieces, count, piece, offset, sent);
    }
    return total;
  }

  bool has_buffered() const override {
    std::lock_guard lock(mutex_);
    return ::SSL_has_pending(ssl_.get()) == 1;
  }

  void end_sending() override {
    std::lock_guard lock(mutex_);
    ::ERR_clear_error();
    ::SSL_shutdown(ssl_.get());
    ::shutdown(socket_.get(), SHUT_WR);
  }

  int fd() const override { return socket_.get(); }
  std::string error() const override {
    std::lock_guard lock(mutex_);
    return error_;
  }

  std::string identity() const override {
    std::lock_guard lock(mutex_);
    X509* certificate = ::SSL_get0_peer_certificate(ssl_.get());
    if (!certificate) return "TLS";
    std::array<char, 256> name{};
    ::X509_NAME_get_text_by_NID(::X509_get_subject_name(certificate), NID_commonName, name.data(), name.size());
    return std::string("certificate of ") + name.data();
  }

  std::string binding() const override {
    constexpr std::string_view kLabel = "EXPORTER-parl-remote-token";
    std::lock_guard lock(mutex_);
    std::array<unsigned char, 32> secret{};
    const int done = ::SSL_export_keying_material(ssl_.get(), secret.data(), secret.size(), kLabel.data(),
                                                  kLabel.size(), nullptr, 0, 0);
    PARL_CHECK(done == 1, "the TLS connection has no name: {}", last_error("unknown error"));
    return std::string(reinterpret_cast<const char*>(secret.data()), secret.size());
  }

 private:
  ssize_t outcome(int result) {
    const int why = ::SSL_get_error(ssl_.get(), result);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return kNotNow;
    if (why == SSL_ERROR_ZERO_RETURN) {
      error_ = "closed its connection";
    } else if (why == SSL_ERROR_SYSCALL) {
      error_ = errno ? std::string("is cut off: ") + ::strerror(errno) : "is cut off";
    } else {
      error_ = "broke the TLS connection: " + last_error("unknown error");
    }
    return kClosed;
  }

  // Small pieces are put together, large ones stay where they are.
  std::pair<const void*, size_t> next_record(const iovec* pieces, int count, int piece, size_t offset) {
    const auto* first = static_cast<const char*>(pieces[piece].iov_base) + offset;
    const size_t left = pieces[piece].iov_len - offset;
    if (left >= kRecord || piece + 1 == count) return {first, std::min(left, kRecord)};
    size_t filled = 0;
    for (; piece < count && filled < kRecord; ++piece, offset = 0) {
      const size_t bytes = std::min(pieces[piece].iov_len - offset, kRecord - filled);
      std::memcpy(staging_.data() + filled, static_cast<const char*>(pieces[piece].iov_base) + offset, bytes);
      filled += bytes;
    }
    return {staging_.data(), filled};
  }

  static void skip(const iovec* pieces, int count, int& piece, size_t& offset, size_t bytes) {
    for (; piece < count; ++piece, offset = 0) {
      const size_t left = pieces[piece].iov_len - offset;
      if (bytes < left) {
        offset += bytes;
        return;
      }
      bytes -= left;
    }
  }

  UniqueFd socket_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
  mutable std::mutex mutex_;
  std::string error_ = "closed its connection";
  std::array<char, kRecord> staging_;
};

class OpenSslContext final : public TlsContext {
 public:
  explicit OpenSslContext(const std::string& folder) : context_(::SSL_CTX_new(::TLS_method())) {
    PARL_CHECK(context_, "OpenSSL cannot be set up: {}", last_error("unknown error"));
    SSL_CTX* context = context_.get();
    ::SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    ::SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    ::SSL_CTX_set_read_ahead(context, 1);
    ::SSL_CTX_set_default_read_buffer_len(context, kReadAhead);
    ::SSL_CTX_set_num_tickets(context, 0);  // nobody resumes
    const std::string ca = folder + "/ca.pem", cert = folder + "/cert.pem", key = folder + "/key.pem";
    ::ERR_clear_error();
    PARL_CHECK(::SSL_CTX_load_verify_locations(context, ca.c_str(), nullptr) == 1,
               "'{}' holds no certificates to believe: {}; `parl keygen certificates DIR` makes them", ca,
               last_error("it cannot be read"));
    has_certificate_ = ::access(cert.c_str(), F_OK) == 0;
    if (!has_certificate_) return;
    PARL_CHECK(::SSL_CTX_use_certificate_chain_file(context, cert.c_str()) == 1, "'{}' is no certificate: {}", cert,
               last_error("it cannot be read"));
    PARL_CHECK(::SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) == 1,
               "'{}' is not the key of '{}': {}", key, cert, last_error("it cannot be read"));
  }

  std::unique_ptr<Transport> accept(UniqueFd socket, bool must_have_certificate) override {
    PARL_CHECK(has_certificate_, "a learner needs cert.pem and key.pem in the folder of its certificates");
    auto ssl = make();
    ::SSL_set_verify(ssl.get(), SSL_VERIFY_PEER | (must_have_certificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                     nullptr);
    ::SSL_set_accept_state(ssl.get());
    return std::make_unique<TlsTransport>(std::move(socket), std::move(ssl));
  }

  std::unique_ptr<Transport> connect(UniqueFd socket, const std::string& host) override {
    auto ssl = make();
    ::SSL_set_verify(ssl.get(), SSL_VERIFY_PEER, nullptr);
    if (host != "*") expect_host(ssl.get(), host);
    ::SSL_set_connect_state(ssl.get());
    return std::make_unique<TlsTransport>(std::move(socket), std::move(ssl));
  }

 private:
  std::unique_ptr<SSL, FreeSsl> make() {
    std::unique_ptr<SSL, FreeSsl> ssl(::SSL_new(context_.get()));
    PARL_CHECK(ssl, "no TLS connection: {}", last_error("no memory"));
    return ssl;
  }

  static void expect_host(SSL* ssl, const std::string& host) {
    std::array<unsigned char, sizeof(in6_addr)> address{};
    const bool is_number = ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
                           ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
    if (is_number) {
      PARL_CHECK(::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(ssl), host.c_str()) == 1,
                 "TLS cannot check that a certificate bears the name '{}'", host);
    } else {
      PARL_CHECK(::SSL_set1_host(ssl, host.c_str()) == 1, "TLS cannot check that a certificate bears the name '{}'",
                 host);
      ::SSL_set_tlsext_host_name(ssl, host.c_str());
    }
  }

  std::unique_ptr<SSL_CTX, FreeContext> context_;
  bool has_certificate_ = false;
};

}  // namespace

std::shared_ptr<TlsContext> TlsContext::load(const std::string& folder) {
  return std::make_shared<OpenSslContext>(folder);
}

}  // namespace parl::internal
