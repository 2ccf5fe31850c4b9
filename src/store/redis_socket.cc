#include "store/redis_socket.h"

#ifdef EMBLEM_WITH_REDIS

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/tcp_connect.h"

namespace emblem {
namespace {

constexpr size_t kTlsChunk = 16 << 10;

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

struct TlsContext::State {
  SSL_CTX* context = nullptr;
  std::string server_name;
  ~State() { SSL_CTX_free(context); }
};

TlsContext::TlsContext(const RedisTls& settings) : state_(std::make_unique<State>()) {
  state_->server_name = settings.server_name;
  SSL_CTX* context = state_->context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  const std::string& ca = settings.ca_certificate;
  const bool folder = std::filesystem::is_directory(ca);
  const int trusted = ca.empty()
                          ? SSL_CTX_set_default_verify_paths(context)
                          : SSL_CTX_load_verify_locations(context, folder ? nullptr : ca.c_str(),
                                                          folder ? ca.c_str() : nullptr);
  EMBLEM_REQUIRE(trusted == 1, "redis: no CA certificates can be read from ", ca, ": ",
                 last_tls_error());
  EMBLEM_REQUIRE(settings.client_certificate.empty() == settings.client_key.empty(),
                 "redis: a TLS client certificate and its key go together, but only one is given");
  if (settings.client_certificate.empty()) return;
  EMBLEM_REQUIRE(
      SSL_CTX_use_certificate_chain_file(context, settings.client_certificate.c_str()) == 1,
      "redis: no TLS client certificate can be read from ", settings.client_certificate, ": ",
      last_tls_error());
  EMBLEM_REQUIRE(
      SSL_CTX_use_PrivateKey_file(context, settings.client_key.c_str(), SSL_FILETYPE_PEM) == 1,
      "redis: no TLS client key can be read from ", settings.client_key, ": ", last_tls_error());
}

TlsContext::~TlsContext() = default;

// Encrypts and decrypts between memory buffers; the socket itself is read and written in one place
// for both kinds of connection.
struct RedisSocket::Tls {
  SSL* ssl = nullptr;
  BIO* in = nullptr;   // what came from the server; owned by ssl
  BIO* out = nullptr;  // what is to be sent; owned by ssl
  ~Tls() { SSL_free(ssl); }
};

RedisSocket::RedisSocket(const RedisEndpoint& endpoint, const TlsContext* tls,
                         HostResolver& resolver, Deadline deadline)
    : endpoint_(endpoint) {
  try {
    connect(resolver, deadline);
    if (tls != nullptr) shake_hands(*tls, deadline);
  } catch (...) {
    if (fd_ >= 0) close(fd_);
    throw;
  }
}

RedisSocket::~RedisSocket() { close(fd_); }

void RedisSocket::fail(const char* doing, const std::string& reason) const {
  throw Error(ErrorCode::kUnavailable,
              cat("redis at ", endpoint_.text(), ", ", doing, ": ", reason));
}

void RedisSocket::connect(HostResolver& resolver, Deadline deadline) {
  try {
    fd_ = connect_first(resolver.resolve(endpoint_.host, endpoint_.port, deadline), deadline);
  } catch (const Error& error) {
    fail("connecting", error.what());
  }
  const int yes = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
}

void RedisSocket::wait(short events, Deadline deadline, const char* doing) const {
  using std::chrono::milliseconds;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd poll_for{fd_, events, 0};
    const int ready = poll(&poll_for, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready > 0) return;
    if (ready == 0) fail(doing, "timed out");
    if (errno != EINTR) fail(doing, std::strerror(errno));
  }
}

void RedisSocket::write_plain(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      wait(POLLOUT, deadline, "writing");
    } else if (errno != EINTR) {
      fail("writing", std::strerror(errno));
    }
  }
}

size_t RedisSocket::read_plain(char* to, size_t room, Deadline deadline) {
  for (;;) {
    const ssize_t came = recv(fd_, to, room, 0);
    if (came > 0) return static_cast<size_t>(came);
    if (came == 0) fail("reading", "it closed the connection");
    if (errno == EAGAIN) {
      wait(POLLIN, deadline, "reading");
    } else if (errno != EINTR) {
      fail("reading", std::strerror(errno));
    }
  }
}

void RedisSocket::shake_hands(const TlsContext& context, Deadline deadline) {
  tls_ = std::make_unique<Tls>();
  tls_->ssl = SSL_new(context.state_->context);
  tls_->in = BIO_new(BIO_s_mem());
  tls_->out = BIO_new(BIO_s_mem());
  SSL_set_bio(tls_->ssl, tls_->in, tls_->out);
  const std::string& named = context.state_->server_name;
  const std::string& name = named.empty() ? endpoint_.host : named;
  if (is_ip_address(name)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_->ssl), name.c_str());
  } else {
    SSL_set_tlsext_host_name(tls_->ssl, name.c_str());
    SSL_set1_host(tls_->ssl, name.c_str());
  }
  for (;;) {
    const int result = SSL_connect(tls_->ssl);
    const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(tls_->ssl, result);
    send_encrypted(deadline);
    if (result == 1) return;
    if (error == SSL_ERROR_WANT_READ) {
      receive_encrypted(deadline);
      continue;
    }
    const long verified = SSL_get_verify_result(tls_->ssl);
    fail("the TLS handshake",
         verified != X509_V_OK
             ? cat("the certificate is refused (", X509_verify_cert_error_string(verified),
                   "; checked for ", name, ": see tls_server_name_identification)")
             : last_tls_error());
  }
}

void RedisSocket::send_encrypted(Deadline deadline) {
  char chunk[kTlsChunk];
  for (int bytes; (bytes = BIO_read(tls_->out, chunk, sizeof(chunk))) > 0;) {
    write_plain({chunk, static_cast<size_t>(bytes)}, deadline);
  }
}

void RedisSocket::receive_encrypted(Deadline deadline) {
  char chunk[kTlsChunk];
  const size_t bytes = read_plain(chunk, sizeof(chunk), deadline);
  BIO_write(tls_->in, chunk, static_cast<int>(bytes));
}

void RedisSocket::write(std::string_view bytes, Deadline deadline) {
  if (tls_ == nullptr) return write_plain(bytes, deadline);
  while (!bytes.empty()) {
    const int count = static_cast<int>(std::min(bytes.size(), kTlsChunk));
    const int written = SSL_write(tls_->ssl, bytes.data(), count);
    send_encrypted(deadline);
    if (written > 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (SSL_get_error(tls_->ssl, written) == SSL_ERROR_WANT_READ) {
      receive_encrypted(deadline);
    } else {
      fail("writing", last_tls_error());
    }
  }
}

size_t RedisSocket::read(char* to, size_t room, Deadline deadline) {
  if (tls_ == nullptr) return read_plain(to, room, deadline);
  for (;;) {
    const int came = SSL_read(tls_->ssl, to, static_cast<int>(std::min<size_t>(room, INT32_MAX)));
    if (came > 0) return static_cast<size_t>(came);
    const int error = SSL_get_error(tls_->ssl, came);
    send_encrypted(deadline);
    if (error == SSL_ERROR_ZERO_RETURN) fail("reading", "it closed the connection");
    if (error != SSL_ERROR_WANT_READ) fail("reading", last_tls_error());
    receive_encrypted(deadline);
  }
}

}  // namespace emblem

#endif
