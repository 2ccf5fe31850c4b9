// serve/net/server.h - a TCP server: threads, connections and their number, deadlines, TLS. The
// protocol is that of the connections that it is told to make.
#pragma once

#include <chrono>
#include <memory>

#include "serve/net/connection.h"

namespace emblem {

class NetServer {
 public:
  // Listens from here on. `alpn`: the protocol to agree on under TLS; empty: none. `purpose` names
  // the threads. Throws kInvalidArgument for options that cannot be, and kUnavailable when the port
  // cannot be listened on.
  NetServer(NetOptions options, const std::string& purpose, const std::string& alpn,
            MakeConnection make_connection);
  ~NetServer();  // drain(0)

  uint16_t port() const;
  size_t connections() const;

  // Accepts nothing new, gives requests under way their answers, closes. What has no answer within
  // `patience` is cancelled and cut off. Nothing is answered afterwards.
  void drain(std::chrono::milliseconds patience);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
