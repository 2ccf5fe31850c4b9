#include "store/server_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "emblem/error.h"

namespace emblem {

using End = ServerConnection::Result::End;

void ServerConnection::close() { socket_.close(); }

ServerConnection::Result ServerConnection::send_plain(std::string_view bytes) {
  for (;;) {
    const ssize_t count =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) return {End::kBytes, static_cast<size_t>(count), {}};
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return {End::kFailed, 0, cat("sending failed: ", std::strerror(errno))};
    waits_for_ = POLLOUT;
    return {End::kBlocked, 0, {}};
  }
}

ServerConnection::Result ServerConnection::receive_plain(char* to, size_t room) {
  for (;;) {
    const ssize_t count = ::recv(socket_.get(), to, room, MSG_DONTWAIT);
    if (count > 0) return {End::kBytes, static_cast<size_t>(count), {}};
    if (count == 0) return {End::kClosed, 0, {}};
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return {End::kFailed, 0, std::strerror(errno)};
    waits_for_ = POLLIN;
    return {End::kBlocked, 0, {}};
  }
}

}  // namespace emblem

#ifdef EMBLEM_WITH_TLS

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <filesystem>

namespace emblem {
namespace {

constexpr size_t kChunk = 16 << 10;

std::string last_tls_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "unknown reason";
  char text[256];
  ERR_error_string_n(code, text, sizeof(text));
  return text;
}

bool is_ip_address(const std::string& host) {
  unsigned char parsed[16];
  return inet_pton(AF_INET, host.c_str(), parsed) == 1 ||
         inet_pton(AF_INET6, host.c_str(), parsed) == 1;
}

}  // namespace

struct ClientTlsContext::State {
  SSL_CTX* context = nullptr;
  ~State() { SSL_CTX_free(context); }
};

ClientTlsContext::ClientTlsContext(const ClientTls& settings) : state_(std::make_unique<State>()) {
  SSL_CTX* context = state_->context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  const char* const ca = settings.ca.c_str();
  const bool is_folder = std::filesystem::is_directory(settings.ca);
  const int trusted = settings.ca.empty()
                          ? SSL_CTX_set_default_verify_paths(context)
                          : SSL_CTX_load_verify_locations(context, is_folder ? nullptr : ca,
                                                          is_folder ? ca : nullptr);
  EMBLEM_REQUIRE(trusted == 1, "no CA certificates can be read from ", settings.ca, ": ",
                 last_tls_error());
  EMBLEM_REQUIRE(settings.certificate.empty() == settings.key.empty(),
                 "a TLS certificate and its key go together, but only one is given");
  if (settings.certificate.empty()) return;
  EMBLEM_REQUIRE(SSL_CTX_use_certificate_chain_file(context, settings.certificate.c_str()) == 1,
                 "no TLS certificate can be read from ", settings.certificate, ": ",
                 last_tls_error());
  EMBLEM_REQUIRE(SSL_CTX_use_PrivateKey_file(context, settings.key.c_str(), SSL_FILETYPE_PEM) == 1,
                 "no TLS key can be read from ", settings.key, ": ", last_tls_error());
}

// Encrypts and decrypts between buffers in memory.
struct ServerConnection::Tls {
  SSL* ssl = nullptr;
  BIO* in = nullptr;    // what came from the server; owned by ssl
  BIO* out = nullptr;   // what is to be sent; owned by ssl
  std::string pending;  // bytes of `out`, taken from it
  std::string host;
  ~Tls() { SSL_free(ssl); }
};

ServerConnection::ServerConnection(FileDescriptor socket, const ClientTlsContext* tls,
                                   const std::string& host)
    : socket_(std::move(socket)) {
  if (tls == nullptr) return;
  tls_ = std::make_unique<Tls>();
  tls_->host = host;
  tls_->ssl = SSL_new(tls->state_->context);
  tls_->in = BIO_new(BIO_s_mem());
  tls_->out = BIO_new(BIO_s_mem());
  SSL_set_bio(tls_->ssl, tls_->in, tls_->out);
  SSL_set_connect_state(tls_->ssl);
  if (is_ip_address(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_->ssl), host.c_str());
  } else {
    SSL_set_tlsext_host_name(tls_->ssl, host.c_str());
    SSL_set1_host(tls_->ssl, host.c_str());
  }
}

ServerConnection::Result ServerConnection::flush() {
  while (tls_ != nullptr) {
    if (tls_->pending.empty()) {
      char chunk[kChunk];
      const int bytes = BIO_read(tls_->out, chunk, sizeof(chunk));
      if (bytes <= 0) return {};
      tls_->pending.assign(chunk, static_cast<size_t>(bytes));
    }
    const Result sent = send_plain(tls_->pending);
    if (sent.end != End::kBytes) return sent;
    tls_->pending.erase(0, sent.bytes);
  }
  return {};
}

// Continues after an operation that gave `result`, not above 0: moves encrypted bytes. kBytes:
// try again.
ServerConnection::Result ServerConnection::exchange_encrypted(int result, const char* doing) {
  const int error = SSL_get_error(tls_->ssl, result);
  if (const Result sent = flush(); sent.end != End::kBytes) return sent;
  if (error == SSL_ERROR_ZERO_RETURN) return {End::kClosed, 0, {}};
  if (error == SSL_ERROR_WANT_READ) {
    char chunk[kChunk];
    const Result came = receive_plain(chunk, sizeof(chunk));
    if (came.end == End::kBytes) BIO_write(tls_->in, chunk, static_cast<int>(came.bytes));
    return came;
  }
  const long verified = SSL_get_verify_result(tls_->ssl);
  if (verified != X509_V_OK)
    return {End::kFailed, 0,
            cat("the certificate is refused (", X509_verify_cert_error_string(verified),
                "; checked for ", tls_->host, ")")};
  return {End::kFailed, 0, cat("TLS failed while ", doing, ": ", last_tls_error())};
}

ServerConnection::Result ServerConnection::shake_hands() {
  while (tls_ != nullptr) {
    const int result = SSL_do_handshake(tls_->ssl);
    if (result == 1) return flush();
    const Result moved = exchange_encrypted(result, "shaking hands");
    if (moved.end != End::kBytes) return moved;
  }
  return {};
}

ServerConnection::Result ServerConnection::send(std::string_view bytes) {
  if (tls_ == nullptr) return send_plain(bytes);
  for (;;) {
    if (const Result sent = flush(); sent.end != End::kBytes) return sent;
    const int written =
        SSL_write(tls_->ssl, bytes.data(), static_cast<int>(std::min(bytes.size(), kChunk)));
    if (written > 0) return {End::kBytes, static_cast<size_t>(written), {}};
    const Result moved = exchange_encrypted(written, "sending");
    if (moved.end != End::kBytes) return moved;
  }
}

ServerConnection::Result ServerConnection::receive(char* to, size_t room) {
  if (tls_ == nullptr) return receive_plain(to, room);
  for (;;) {
    if (const Result sent = flush(); sent.end != End::kBytes) return sent;
    const int came = SSL_read(tls_->ssl, to, static_cast<int>(std::min<size_t>(room, INT32_MAX)));
    if (came > 0) return {End::kBytes, static_cast<size_t>(came), {}};
    const Result moved = exchange_encrypted(came, "receiving");
    if (moved.end != End::kBytes) return moved;
  }
}

}  // namespace emblem

#else

namespace emblem {

struct ClientTlsContext::State {};
struct ServerConnection::Tls {};

ClientTlsContext::ClientTlsContext(const ClientTls&) {
  throw Error(ErrorCode::kInvalidArgument, "this program was built without TLS (OpenSSL)");
}
ServerConnection::ServerConnection(FileDescriptor socket, const ClientTlsContext*,
                                   const std::string&)
    : socket_(std::move(socket)) {}
ServerConnection::Result ServerConnection::shake_hands() { return {}; }
ServerConnection::Result ServerConnection::flush() { return {}; }
ServerConnection::Result ServerConnection::send(std::string_view bytes) {
  return send_plain(bytes);
}
ServerConnection::Result ServerConnection::receive(char* to, size_t room) {
  return receive_plain(to, room);
}

}  // namespace emblem

#endif

namespace emblem {

ClientTlsContext::~ClientTlsContext() = default;
ServerConnection::ServerConnection() = default;
ServerConnection::~ServerConnection() = default;
ServerConnection::ServerConnection(ServerConnection&&) noexcept = default;
ServerConnection& ServerConnection::operator=(ServerConnection&&) noexcept = default;

}  // namespace emblem
