#include "serve/net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "core/files/file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Tls = boost::asio::ssl::context;
using boost::system::error_code;

std::string reason(const error_code& error) {
  const char* text = ERR_reason_error_string(static_cast<unsigned long>(error.value()));
  return text != nullptr ? text : error.message();
}

// `wanted` is a protocol's name after its length.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes,
                    const unsigned char* offered, unsigned offered_bytes, void* wanted) {
  const auto& protocol = *static_cast<const std::string*>(wanted);
  const int found =
      SSL_select_next_proto(const_cast<unsigned char**>(chosen), chosen_bytes,
                            reinterpret_cast<const unsigned char*>(protocol.data()),
                            static_cast<unsigned>(protocol.size()), offered, offered_bytes);
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// The only protocol that servers agree on by ALPN; callbacks keep a pointer to it.
const std::string kHttp2 = "\x02h2";

void set_protocol(Tls& tls, const std::string& alpn) {
  if (alpn.empty()) return;
  EMBLEM_REQUIRE(alpn == "h2", "there is no ALPN protocol ", alpn, " here; expected h2");
  SSL_CTX_set_alpn_select_cb(tls.native_handle(), choose_protocol,
                             const_cast<std::string*>(&kHttp2));
}

void require_client_certificates(Tls& tls, const std::string& authorities) {
  if (authorities.empty()) return;
  error_code error;
  tls.load_verify_file(authorities, error);
  EMBLEM_REQUIRE(!error, "the certificates of client authorities ", authorities,
                 " cannot be used: ", reason(error));
  tls.set_verify_mode(Tls::verify_peer | Tls::verify_fail_if_no_peer_cert, error);
  // Sent to clients, so that they know which certificate to show.
  SSL_CTX_set_client_CA_list(tls.native_handle(), SSL_load_client_CA_file(authorities.c_str()));
  // Sessions that are resumed keep the certificate that began them.
  static constexpr unsigned char kSessions[] = "emblem";
  SSL_CTX_set_session_id_context(tls.native_handle(), kSessions, sizeof(kSessions) - 1);
}

}  // namespace

std::unique_ptr<Tls> make_tls(const NetOptions& options, const std::string& alpn) {
  EMBLEM_REQUIRE(options.tls_certificate.empty() == options.tls_key.empty(),
                 "TLS needs both a certificate and its key");
  EMBLEM_REQUIRE(options.tls_client_ca.empty() || !options.tls_certificate.empty(),
                 "client certificates need TLS: a certificate and a key of the server");
  if (options.tls_certificate.empty()) return nullptr;
  // OpenSSL does not say that a file is not there.
  for (const std::string& file :
       {options.tls_certificate, options.tls_key, options.tls_client_ca}) {
    if (!file.empty()) read_text_file(file);
  }
  auto tls = std::make_unique<Tls>(Tls::tls_server);
  tls->set_options(Tls::default_workarounds | Tls::no_sslv2 | Tls::no_sslv3 | Tls::no_tlsv1 |
                   Tls::no_tlsv1_1);
  SSL_CTX_set_options(tls->native_handle(), SSL_OP_NO_RENEGOTIATION);
  error_code error;
  tls->use_certificate_chain_file(options.tls_certificate, error);
  EMBLEM_REQUIRE(!error, "the TLS certificate ", options.tls_certificate,
                 " cannot be used: ", reason(error));
  tls->use_private_key_file(options.tls_key, Tls::pem, error);
  EMBLEM_REQUIRE(!error, "the TLS key ", options.tls_key, " cannot be used with the certificate ",
                 options.tls_certificate, ": ", reason(error));
  require_client_certificates(*tls, options.tls_client_ca);
  set_protocol(*tls, alpn);
  return tls;
}

void check_tls(const NetOptions& options) { make_tls(options, ""); }

}  // namespace emblem
