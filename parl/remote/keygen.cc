#include "parl/remote/keygen.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "parl/core/check.h"
#include "parl/remote/internal/unique_fd.h"

namespace parl {
namespace {

constexpr long kDays = 3650;

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* what) const {
    kFree(what);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Memory = std::unique_ptr<BIO, Freer<BIO_free>>;

void write_new(const std::string& file, const std::string& text) {
  const internal::UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  PARL_CHECK(fd, "'{}' cannot be made: {}{}", file, ::strerror(errno),
             errno == EEXIST ? "; remove it first, if nobody uses it" : "");
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd.get(), text.data() + done, text.size() - done);
    PARL_CHECK(written > 0, "'{}' cannot be written: {}", file, ::strerror(errno));
    done += static_cast<size_t>(written);
  }
}

std::string contents(const Memory& memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string pem_of(X509* certificate) {
  const Memory memory(BIO_new(BIO_s_mem()));
  PARL_CHECK(memory && PEM_write_bio_X509(memory.get(), certificate) == 1, "a certificate could not be written");
  return contents(memory);
}

std::string pem_of(EVP_PKEY* key) {
  const Memory memory(BIO_new(BIO_s_mem()));
  PARL_CHECK(memory && PEM_write_bio_PrivateKey(memory.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
             "a key could not be written");
  return contents(memory);
}

Key make_key() {
  Key key(EVP_EC_gen("P-256"));
  PARL_CHECK(key, "OpenSSL made no key");
  return key;
}

void extend(X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str());
  PARL_CHECK(extension, "'{}' cannot stand in a certificate", value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

std::string alternative_names(const std::vector<std::string>& hosts) {
  std::string out;
  for (const std::string& host : hosts) {
    std::array<unsigned char, 16> address{};
    const bool is_number = ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
                           ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
    const bool is_plain = host.find_first_of(", ;\n") == std::string::npos && !host.empty();
    PARL_CHECK(is_plain, "'{}' is no host", host);
    out += (out.empty() ? "" : ",") + std::string(is_number ? "IP:" : "DNS:") + host;
  }
  return out;
}

Certificate make_unsigned(const std::string& name, EVP_PKEY* key) {
  Certificate certificate(X509_new());
  PARL_CHECK(certificate, "no memory for a certificate");
  std::array<unsigned char, 16> serial{};
  PARL_CHECK(RAND_bytes(serial.data(), serial.size()) == 1, "no random numbers are to be had");
  serial[0] &= 0x7f;
  X509_set_version(certificate.get(), X509_VERSION_3);
  BIGNUM* number = BN_bin2bn(serial.data(), serial.size(), nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate.get()));
  BN_free(number);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -24 * 3600);  // clocks differ
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kDays * 24 * 3600);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

void sign(X509* certificate, X509* issuer, EVP_PKEY* key) {
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  PARL_CHECK(X509_sign(certificate, key, EVP_sha256()) > 0, "a certificate could not be signed");
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  PARL_CHECK(!error, "'{}' cannot be made: {}", folder, error.message());
}

}  // namespace

void make_token(const std::string& file) {
  std::array<unsigned char, 32> bytes{};
  PARL_CHECK(RAND_bytes(bytes.data(), bytes.size()) == 1, "no random numbers are to be had");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  write_new(file, text + "\n");
}

void make_certificates(const std::string& folder, const std::vector<std::string>& hosts) {
  PARL_CHECK(!hosts.empty(), "certificates need the names or numbers under which workers dial the learner");
  const std::string names = alternative_names(hosts);
  const Key ca_key = make_key();
  const Certificate ca = make_unsigned("parl", ca_key.get());
  extend(ca.get(), ca.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  extend(ca.get(), ca.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  sign(ca.get(), ca.get(), ca_key.get());
  make_folder(folder + "/ca");
  write_new(folder + "/ca/ca.pem", pem_of(ca.get()));
  write_new(folder + "/ca/key.pem", pem_of(ca_key.get()));
  for (const std::string& side : {std::string("learner"), std::string("worker")}) {
    const Key key = make_key();
    const Certificate certificate = make_unsigned("parl " + side, key.get());
    extend(certificate.get(), ca.get(), NID_basic_constraints, "critical,CA:FALSE");
    extend(certificate.get(), ca.get(), NID_key_usage, "critical,digitalSignature");
    extend(certificate.get(), ca.get(), NID_ext_key_usage, side == "learner" ? "serverAuth" : "clientAuth");
    if (side == "learner") extend(certificate.get(), ca.get(), NID_subject_alt_name, names);
    sign(certificate.get(), ca.get(), ca_key.get());
    const std::string own = folder + "/" + side;
    make_folder(own);
    write_new(own + "/ca.pem", pem_of(ca.get()));
    write_new(own + "/cert.pem", pem_of(certificate.get()));
    write_new(own + "/key.pem", pem_of(key.get()));
  }
}

}  // namespace parl
