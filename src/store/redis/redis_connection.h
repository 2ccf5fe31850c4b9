// store/redis/redis_connection.h - Redis's protocol (RESP2) over a socket: commands out, replies
// in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/tcp_connect.h"
#include "store/redis/redis_store.h"
#include "store/server_connection.h"

namespace emblem {

// A connection, with TLS if asked, whose every operation ends by a deadline. Failures throw
// kUnavailable. Used by one thread at a time.
class RedisSocket {
 public:
  // `tls` may be null: no encryption. It must outlive the socket. Looking up the host, connecting
  // and the TLS handshake share the time until `deadline`. The certificate must be of
  // `server_name`; empty: of the host.
  RedisSocket(const RedisEndpoint& endpoint, const ClientTlsContext* tls,
              const std::string& server_name, HostResolver& resolver, Deadline deadline);

  void write(std::string_view bytes, Deadline deadline);
  // Waits for at least one byte; returns how many came.
  size_t read(char* to, size_t room, Deadline deadline);

 private:
  // Calls operation() until it does not block; the bytes that it moved.
  template <class Operation>
  size_t finish(const char* doing, Deadline deadline, Operation&& operation);
  [[noreturn]] void fail(const char* doing, const std::string& reason) const;

  RedisEndpoint endpoint_;
  ServerConnection connection_;
};

// Appends a command to `out`: first its number of words, then each.
void append_command_size(std::string& out, size_t words);
void append_word(std::string& out, std::string_view word);
std::string redis_command(std::initializer_list<std::string_view> words);

// One element of a reply. An array is followed by its elements.
struct RedisItem {
  enum class Kind { kText, kError, kInteger, kNil, kArray };
  Kind kind = Kind::kNil;
  int64_t number = 0;     // the integer, or how many elements follow
  std::string_view text;  // valid until the next item is read
};

// A reply with all its elements.
struct RedisReply {
  RedisItem::Kind kind = RedisItem::Kind::kNil;
  int64_t number = 0;
  std::string text;
  std::vector<RedisReply> items;
};

// Logged in from the start. Used by one thread at a time; after an exception it must be given up.
class RedisConnection {
 public:
  RedisConnection(const RedisEndpoint& endpoint, const RedisSettings& settings,
                  const ClientTlsContext* tls, HostResolver& resolver, Deadline deadline);

  const RedisEndpoint& endpoint() const { return endpoint_; }
  void send(std::string_view commands, Deadline deadline) { socket_.write(commands, deadline); }
  RedisItem next(Deadline deadline);
  RedisReply reply(Deadline deadline);

 private:
  std::string_view line(Deadline deadline);
  void receive(Deadline deadline);
  RedisReply reply(Deadline deadline, int depth);
  [[noreturn]] void fail(ErrorCode code, std::string_view reason) const;

  RedisEndpoint endpoint_;
  RedisSocket socket_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;  // range of what came and was not read yet
};

}  // namespace emblem
