// store/server_connection.h - a connection to a server, plain or with TLS, whose operations
// never wait.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/files/file_descriptor.h"

namespace emblem {

// How the server is checked, and how it checks this process. PEM files.
struct ClientTls {
  // Authorities that may have signed the server's certificate; or a folder; empty: the system's.
  std::string ca;
  // Certificate of this process, for servers that ask for one; empty: none.
  std::string certificate;
  std::string key;  // key of `certificate`
};

// What TLS connections share. Thread-safe.
class ClientTlsContext {
 public:
  // Throws kInvalidArgument when a file cannot be read, and in builds without OpenSSL.
  explicit ClientTlsContext(const ClientTls& settings);
  ~ClientTlsContext();
  ClientTlsContext(const ClientTlsContext&) = delete;

 private:
  friend class ServerConnection;
  struct State;
  std::unique_ptr<State> state_;
};

// Used by one thread at a time.
class ServerConnection {
 public:
  ServerConnection();  // closed
  // `socket` is connected and non-blocking. With `tls`, which outlives it, everything is encrypted;
  // the server's certificate must be one of `host`, a name or an IP address. The handshake comes
  // with the first bytes, or before.
  ServerConnection(FileDescriptor socket, const ClientTlsContext* tls, const std::string& host);
  ~ServerConnection();
  ServerConnection(ServerConnection&&) noexcept;
  ServerConnection& operator=(ServerConnection&&) noexcept;

  bool is_open() const { return socket_.get() >= 0; }
  int descriptor() const { return socket_.get(); }
  void close();

  // What became of an operation.
  struct Result {
    enum class End { kBytes, kBlocked, kClosed, kFailed } end = End::kBytes;
    size_t bytes = 0;
    std::string problem;  // problem of kFailed
  };
  Result shake_hands();  // kBytes: done
  // With TLS the last of the bytes may wait until flush() or receive().
  Result send(std::string_view bytes);
  Result flush();
  Result receive(char* to, size_t room);
  // What to poll() for after kBlocked.
  short waits_for() const { return waits_for_; }

 private:
  struct Tls;
  Result send_plain(std::string_view bytes);
  Result receive_plain(char* to, size_t room);
  Result exchange_encrypted(int result, const char* doing);

  FileDescriptor socket_{-1};
  std::unique_ptr<Tls> tls_;
  short waits_for_ = 0;
};

}  // namespace emblem
