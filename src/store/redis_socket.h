// store/redis_socket.h - a TCP connection, with TLS on top if asked, whose every operation ends by
// a deadline. Failures throw kUnavailable.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/host_resolver.h"
#include "store/redis_store.h"

namespace emblem {

// What TLS connections share: certificates and how strictly to check.
class TlsContext {
 public:
  // Throws kInvalidArgument when a certificate or key cannot be read.
  explicit TlsContext(const RedisTls& settings);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;

 private:
  friend class RedisSocket;
  struct State;
  std::unique_ptr<State> state_;
};

// Used by one thread at a time.
class RedisSocket {
 public:
  // `tls` may be null: no encryption. It must outlive the socket. Looking up the host, connecting
  // and the TLS handshake share the time until `deadline`.
  RedisSocket(const RedisEndpoint& endpoint, const TlsContext* tls, HostResolver& resolver,
              Deadline deadline);
  ~RedisSocket();
  RedisSocket(const RedisSocket&) = delete;

  void write(std::string_view bytes, Deadline deadline);
  // Waits for at least one byte; returns how many came.
  size_t read(char* to, size_t room, Deadline deadline);

 private:
  struct Tls;
  void connect(HostResolver& resolver, Deadline deadline);
  void wait(short events, Deadline deadline, const char* doing) const;
  void write_plain(std::string_view bytes, Deadline deadline);
  size_t read_plain(char* to, size_t room, Deadline deadline);
  void shake_hands(const TlsContext& context, Deadline deadline);
  void send_encrypted(Deadline deadline);
  void receive_encrypted(Deadline deadline);
  [[noreturn]] void fail(const char* doing, const std::string& reason) const;

  RedisEndpoint endpoint_;
  int fd_ = -1;
  std::unique_ptr<Tls> tls_;
};

}  // namespace emblem
