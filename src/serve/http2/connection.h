// serve/http2/connection.h - an HTTP/2 connection of a NetServer. Includes Asio: only for the .cc
// files of protocols.
//
// Its input is not read while output waits for the socket, so that a client that does not read
// cannot make the server hold answers; one that reads nothing for NetOptions::read_timeout is cut
// off.
#pragma once

#include <memory>
#include <thread>

#include "serve/http2/session.h"
#include "serve/net/connection.h"

namespace emblem {

// The thread of a connection, for answers that come from others. Thread-safe.
class Http2Loop {
 public:
  explicit Http2Loop(const NetThread& thread)
      : inbox_(thread.inbox), home_(thread.thread.get_id()) {}

  bool is_here() const { return std::this_thread::get_id() == home_; }
  // Runs `act` on the connection's thread, now if this is it; never when the server is gone.
  void run(std::function<void()> act) const;

 private:
  std::shared_ptr<ReplyInbox> inbox_;
  std::thread::id home_;
};

// Where a request comes from.
struct Http2Peer {
  Http2Loop loop;
  boost::asio::io_context& context;
  ClientKey client;
  bool is_local = false;    // on this machine
  bool is_refused = false;  // too many connections: each request is to be answered with that
};

using Http2Open =
    std::function<std::shared_ptr<Http2Handler>(const Http2Peer&, Http2Stream&, Http2Headers)>;

// A connection, with TLS when the server has it. `limits` and `open` must outlive the server;
// timeouts and clock are the server's.
std::shared_ptr<NetConnection> make_http2_connection(const Http2Limits& limits,
                                                     const Http2Open& open, NetShared& shared,
                                                     NetThread& thread, TcpSocket socket,
                                                     bool refused);

}  // namespace emblem
